"""PutMessages, CreateCursor and GetMessages of one partition: statuses, shapes, limits and failures."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from crdtstream.oci.limits import KEY_BYTES_MAX, MESSAGE_BYTES_MAX
from crdtstream.oci.messages import partition_of
from crdtstream.oci.times import rfc3339
from crdtstream.partitions.values import UNREACHABLE, Refused
from tests.oci.ports import OFF, REAL, Edge, edge, error_of


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def entry(value: bytes, key: bytes | None = b"k") -> dict[str, Any]:
    return {"value": b64(value), **({} if key is None else {"key": b64(key)})}


async def put(port: Edge, stream: str, *entries: dict[str, Any]) -> dict[str, Any]:
    reply = await port.post(f"/streams/{stream}/messages", {"messages": list(entries)})
    assert reply.status_code == 200, reply.text
    return dict(reply.json())


async def cursor(port: Edge, stream: str, kind: str = "TRIM_HORIZON", partition: str = "0", **more: Any) -> str:
    reply = await port.post(f"/streams/{stream}/cursors", {"partition": partition, "type": kind, **more})
    assert reply.status_code == 200, reply.text
    return str(reply.json()["value"])


async def get(port: Edge, stream: str, at: str, **query: Any) -> tuple[list[dict[str, Any]], str]:
    reply = await port.get(f"/streams/{stream}/messages", params={"cursor": at, **query})
    assert reply.status_code == 200, reply.text
    return reply.json(), reply.headers["opc-next-cursor"]


# Put


async def test_what_put_answers() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        time = rfc3339(port.engine.time_ms)
        assert await put(port, stream, entry(b"a"), entry(b"", None)) == {
            "failures": 0,
            "entries": [
                {"partition": "0", "offset": 0, "timestamp": time},
                {"partition": "0", "offset": 1, "timestamp": time},
            ],
        }


async def test_a_key_has_its_partition_and_its_order() -> None:
    async with edge() as port:
        stream = await port.made(partitions=5)
        keys = [b"key%d" % (number % 20) for number in range(60)]
        result = await put(port, stream, *[entry(b"v", key) for key in keys])
        assert [int(row["partition"]) for row in result["entries"]] == [partition_of(key, 5) for key in keys]
        assert len({row["partition"] for row in result["entries"]}) == 5


async def test_messages_without_a_key_are_spread() -> None:
    async with edge() as port:
        stream = await port.made(partitions=3)
        result = await put(port, stream, *[entry(b"v", None) for _ in range(60)])
        counts = [sum(row["partition"] == name for row in result["entries"]) for name in "012"]
        assert min(counts) > 5


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({}, "MissingParameter"),
        ({"messages": []}, "InvalidParameter"),
        ({"messages": [{"key": "aw=="}]}, "MissingParameter"),
        ({"messages": [{"value": "no base64!"}]}, "InvalidParameter"),
        ({"messages": [{"value": "YQ"}]}, "InvalidParameter"),
        ({"messages": [{"value": "YQ==", "key": "é"}]}, "InvalidParameter"),
    ],
)
async def test_what_put_refuses(body: Any, code: str) -> None:
    async with edge() as port:
        stream = await port.made()
        assert error_of(await port.post(f"/streams/{stream}/messages", body)) == (400, code)


async def test_messages_that_are_too_large_fail_alone() -> None:
    async with edge(REAL) as port:
        stream = await port.made(partitions=1)
        large, long = entry(bytes(MESSAGE_BYTES_MAX + 1)), entry(b"v", bytes(KEY_BYTES_MAX + 1))
        result = await put(port, stream, large, entry(b"good"), long, entry(b"v", bytes(KEY_BYTES_MAX)))
        assert result["failures"] == 2
        assert [row.get("error") for row in result["entries"]] == ["InvalidParameter", None, "InvalidParameter", None]
        assert "more than 1048576: make it shorter" in result["entries"][0]["errorMessage"]
        assert set(result["entries"][2]) == {"error", "errorMessage"}


async def test_a_request_that_is_too_large() -> None:
    async with edge(REAL) as port:
        stream = await port.made()
        half = entry(bytes(MESSAGE_BYTES_MAX // 2 + 1))
        reply = await port.post(f"/streams/{stream}/messages", {"messages": [half, half]})
        assert error_of(reply) == (400, "InvalidParameter") and "send fewer messages" in reply.json()["message"]


async def test_a_partition_takes_so_much_a_second() -> None:
    async with edge(REAL) as port:
        stream = await port.made(partitions=1)
        assert (await put(port, stream, entry(bytes(MESSAGE_BYTES_MAX), b"")))["failures"] == 0
        result = await put(port, stream, entry(b"more"))
        assert result["failures"] == 1 and result["entries"][0]["error"] == "TooManyRequests"
        port.engine.time_ms += 1_000
        assert (await put(port, stream, entry(b"more")))["failures"] == 0


async def test_all_messages_fail_while_the_home_is_away() -> None:
    async with edge() as port:
        stream = await port.made()
        port.engine.refusal = Refused(UNREACHABLE, "the home cannot be reached: try again")
        result = await put(port, stream, entry(b"a"), entry(b"b"))
        failed = {"error": "ServiceUnavailable", "errorMessage": "the home cannot be reached: try again"}
        assert result == {"failures": 2, "entries": [failed, failed]}


async def test_no_limits_where_they_are_off() -> None:
    async with edge(OFF) as port:
        stream = await port.made(partitions=1)
        result = await put(port, stream, entry(bytes(2 * MESSAGE_BYTES_MAX), bytes(1_000)), entry(b""))
        assert result["failures"] == 0


# Cursors and Get


async def test_a_message_as_it_is_read() -> None:
    async with edge() as port:
        stream = await port.made("orders", partitions=1)
        await put(port, stream, entry(b"value", b"key"), entry(b"", None))
        messages, _ = await get(port, stream, await cursor(port, stream))
        time = rfc3339(port.engine.time_ms)
        common = {"stream": "orders", "partition": "0", "timestamp": time}
        assert messages == [
            {**common, "key": b64(b"key"), "value": b64(b"value"), "offset": 0},
            {**common, "key": None, "value": "", "offset": 1},
        ]


async def offsets(port: Edge, stream: str, at: str, **query: Any) -> list[int]:
    return [row["offset"] for row in (await get(port, stream, at, **query))[0]]


async def test_where_cursors_begin() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        for _ in range(4):
            port.engine.time_ms += 1_000
            await put(port, stream, entry(b"v"))
        port.engine.streams[stream].oldest[0] = 1
        latest = await cursor(port, stream, "LATEST")
        await put(port, stream, entry(b"after"))
        third = rfc3339(port.engine.time_ms - 1_000)
        assert await offsets(port, stream, await cursor(port, stream)) == [1, 2, 3, 4]
        assert await offsets(port, stream, latest) == [4]
        assert await offsets(port, stream, await cursor(port, stream, "AT_OFFSET", offset=3)) == [3, 4]
        assert await offsets(port, stream, await cursor(port, stream, "AFTER_OFFSET", offset=3)) == [4]
        assert await offsets(port, stream, await cursor(port, stream, "AFTER_OFFSET", offset=4)) == []
        assert await offsets(port, stream, await cursor(port, stream, "AT_TIME", time=third)) == [2, 3, 4]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"partition": "0"}, "MissingParameter"),
        ({"partition": "0", "type": "NEWEST"}, "InvalidParameter"),
        ({"partition": 0, "type": "LATEST"}, "InvalidParameter"),
        ({"partition": "1", "type": "LATEST"}, "InvalidParameter"),
        ({"partition": "-1", "type": "LATEST"}, "InvalidParameter"),
        ({"partition": "x", "type": "LATEST"}, "InvalidParameter"),
        ({"partition": "0", "type": "AT_TIME"}, "MissingParameter"),
        ({"partition": "0", "type": "AT_TIME", "time": "noon"}, "InvalidParameter"),
        ({"partition": "0", "type": "AT_OFFSET"}, "MissingParameter"),
        ({"partition": "0", "type": "AT_OFFSET", "offset": 2}, "InvalidParameter"),
        ({"partition": "0", "type": "AFTER_OFFSET", "offset": -1}, "InvalidParameter"),
    ],
)
async def test_cursors_that_are_refused(body: Any, code: str) -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        await put(port, stream, entry(b"a"), entry(b"b"))
        assert error_of(await port.post(f"/streams/{stream}/cursors", body)) == (400, code)


async def test_an_empty_partition_has_no_offset() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        reply = await port.post(f"/streams/{stream}/cursors", {"partition": "0", "type": "AT_OFFSET", "offset": 0})
        assert reply.json()["message"] == "offset 0 is not in partition 0, whose offsets are none: it is empty"


async def test_an_offset_that_another_region_has() -> None:
    """The cursor waits for it, under the epoch that the home says."""
    async with edge() as port:
        stream = await port.made(partitions=1)
        await put(port, stream, entry(b"a"), entry(b"b"))
        port.engine.located = port.engine.present
        at = await cursor(port, stream, "AFTER_OFFSET", offset=3)
        messages, at = await get(port, stream, at)
        assert messages == []
        await put(port, stream, *[entry(b"v") for _ in range(3)])
        assert await offsets(port, stream, at) == [4]
        body = {"partition": "0", "type": "AT_OFFSET", "offset": 9}
        port.engine.located = None
        assert error_of(await port.post(f"/streams/{stream}/cursors", body)) == (400, "InvalidParameter")


async def test_an_offset_that_an_epoch_before_had_goes_on_where_the_present_one_begins() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        await put(port, stream, *[entry(b"v") for _ in range(5)])
        before = port.engine.present
        port.engine.present, port.engine.settled, port.engine.located = (2, 7), {(stream, 0): 3}, before
        at = await cursor(port, stream, "AFTER_OFFSET", offset=400)
        assert await offsets(port, stream, at) == [3, 4]


async def test_headers_tell_of_another_epoch() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        path, query = f"/streams/{stream}/messages", {"cursor": await cursor(port, stream)}
        reply = await port.post(path, {"messages": [entry(b"v") for _ in range(5)]})
        assert reply.headers["crdtstream-epoch"] == "1-1.0"
        reply = await port.get(path, params=query)
        assert reply.headers["crdtstream-epoch"] == "1-1.0" and "crdtstream-moved-back" not in reply.headers
        port.engine.present, port.engine.settled = (2, 7), {(stream, 0): 3}
        reply = await port.get(path, params={"cursor": reply.headers["opc-next-cursor"]})
        assert (reply.headers["crdtstream-epoch"], reply.headers["crdtstream-moved-back"]) == ("2-7.0", "0:3")
        reply = await port.post(f"/streams/{stream}/cursors", {"partition": "0", "type": "LATEST"})
        assert reply.headers["crdtstream-epoch"] == "2-7.0"


async def test_reading_on() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        await put(port, stream, *[entry(b"%d" % number) for number in range(5)])
        at, seen = await cursor(port, stream), []
        for _ in range(4):
            messages, at = await get(port, stream, at, limit=2)
            seen.append([row["offset"] for row in messages])
        assert seen == [[0, 1], [2, 3], [4], []]
        await put(port, stream, entry(b"late"))
        assert await offsets(port, stream, at) == [5], "an empty reply has a cursor that goes on"


async def test_a_reply_is_bounded_by_bytes() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        await put(port, stream, *[entry(bytes(400_000)) for _ in range(5)])
        assert len(await offsets(port, stream, await cursor(port, stream))) == 3


async def test_a_time_to_come_is_kept() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        at = await cursor(port, stream, "AT_TIME", time=rfc3339(port.engine.time_ms + 5_000))
        await put(port, stream, entry(b"early"))
        messages, at = await get(port, stream, at)
        assert messages == []
        port.engine.time_ms += 5_000
        await put(port, stream, entry(b"then"))
        assert await offsets(port, stream, at) == [1]


async def test_an_offset_of_an_older_epoch_is_settled() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        await put(port, stream, *[entry(b"v") for _ in range(5)])
        _, at = await get(port, stream, await cursor(port, stream))
        port.engine.present, port.engine.settled = (2, 7), {(stream, 0): 3}
        messages, at = await get(port, stream, at)
        assert [row["offset"] for row in messages] == [3, 4]
        assert await offsets(port, stream, at) == [], "the next one is of the present epoch"


@pytest.mark.parametrize("limit", ["0", "10001", "many"])
async def test_limits_that_are_none(limit: str) -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        reply = await port.get(f"/streams/{stream}/messages", params={"cursor": "c", "limit": limit})
        assert error_of(reply) == (400, "InvalidParameter")


async def test_cursors_that_are_none() -> None:
    async with edge() as port:
        one, two = await port.made("one"), await port.made("two")
        assert error_of(await port.get(f"/streams/{one}/messages")) == (400, "MissingParameter")
        assert error_of(await port.get(f"/streams/{one}/messages?cursor=x")) == (400, "InvalidParameter")
        foreign = await port.get(f"/streams/{one}/messages", params={"cursor": await cursor(port, two)})
        assert error_of(foreign) == (400, "InvalidParameter") and "belongs to the stream" in foreign.json()["message"]


async def test_a_cursor_expires_five_minutes_after_it_was_issued() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        old = await cursor(port, stream)
        port.engine.time_ms += 299_999
        _, fresh = await get(port, stream, old)
        port.engine.time_ms += 1
        reply = await port.get(f"/streams/{stream}/messages", params={"cursor": old})
        assert error_of(reply) == (400, "InvalidParameter") and "has expired" in reply.json()["message"]
        await get(port, stream, fresh)


async def test_gets_a_second() -> None:
    async with edge(REAL) as port:
        stream = await port.made(partitions=2)
        at = await cursor(port, stream)
        for _ in range(5):
            _, at = await get(port, stream, at)
        reply = await port.get(f"/streams/{stream}/messages", params={"cursor": at})
        assert error_of(reply) == (429, "TooManyRequests")
        await get(port, stream, await cursor(port, stream, partition="1"))
        port.engine.time_ms += 200
        await get(port, stream, at)


async def test_unknown_streams() -> None:
    async with edge() as port:
        for method, path, body in [
            ("POST", "/messages", {"messages": [entry(b"v")]}),
            ("GET", "/messages?cursor=c", None),
            ("POST", "/cursors", {"partition": "0", "type": "LATEST"}),
            ("POST", "/groupCursors", {"type": "LATEST", "groupName": "g"}),
            ("POST", "/commit?cursor=c", None),
            ("POST", "/heartbeat?cursor=c", None),
            ("GET", "/groups/g", None),
            ("PUT", "/groups/g", {"type": "LATEST"}),
        ]:
            reply = await port.ask(method, f"/streams/ocid1.stream.oc1..no{path}", body)
            assert error_of(reply) == (404, "NotAuthorizedOrNotFound"), path
            assert reply.json()["message"] == "Unknown stream ocid1.stream.oc1..no."
