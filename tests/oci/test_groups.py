"""Consumer groups over HTTP: the order of GetMessages, commits, heartbeats, and the seed's examples."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.oci.times import rfc3339
from tests.oci.ports import REAL, Edge, edge, error_of
from tests.oci.test_messages import cursor as partition_cursor
from tests.oci.test_messages import entry, put

Row = dict[str, Any]


class Member:
    """An instance of a group, and the cursor that it holds."""

    def __init__(self, port: Edge, stream: str, cursor: str) -> None:
        self.port = port
        self.stream = stream
        self.cursor = cursor

    async def get(self, **query: Any) -> list[Row]:
        reply = await self.port.get(f"/streams/{self.stream}/messages", params={"cursor": self.cursor, **query})
        assert reply.status_code == 200, reply.text
        self.cursor = reply.headers["opc-next-cursor"]
        return list(reply.json())

    async def offsets(self, **query: Any) -> list[int]:
        return [row["offset"] for row in await self.get(**query)]

    async def call(self, what: str) -> None:
        reply = await self.port.post(f"/streams/{self.stream}/{what}", params={"cursor": self.cursor})
        assert reply.status_code == 200 and set(reply.json()) == {"value"}, reply.text
        self.cursor = reply.json()["value"]


async def member(port: Edge, stream: str, name: str | None = "a", kind: str = "TRIM_HORIZON", **more: Any) -> Member:
    body = {"type": kind, "groupName": "g", **({} if name is None else {"instanceName": name}), **more}
    reply = await port.post(f"/streams/{stream}/groupCursors", body)
    assert reply.status_code == 200 and set(reply.json()) == {"value"}, reply.text
    return Member(port, stream, reply.json()["value"])


async def filled(port: Edge, count: int = 10, partitions: int = 1) -> str:
    stream = await port.made(partitions=partitions)
    await put(port, stream, *[entry(b"%d" % number, b"%d" % number) for number in range(count)])
    return stream


async def reservations(port: Edge, stream: str) -> list[Row]:
    reply = await port.get(f"/streams/{stream}/groups/g")
    assert reply.status_code == 200
    assert (reply.json()["streamId"], reply.json()["groupName"]) == (stream, "g")
    return list(reply.json()["reservations"])


async def test_the_consumers_a_and_b_of_the_seed() -> None:
    async with edge() as port:
        stream = await filled(port, 300)
        a = await member(port, stream, "A")
        assert await a.offsets(limit=100) == list(range(100))
        assert await a.offsets(limit=100) == list(range(100, 200))
        assert (await reservations(port, stream))[0]["committedOffset"] == 99
        port.engine.time_ms += 30_001
        b = await member(port, stream, "B")
        assert await b.offsets(limit=100) == list(range(100, 200)), "nothing before the commit, nothing skipped"
        assert await b.offsets(limit=100) == list(range(200, 300))


@pytest.mark.parametrize(("partitions", "owned"), [(8, [2, 2, 2, 2]), (10, [2, 2, 3, 3]), (2, [0, 0, 1, 1])])
async def test_partitions_are_balanced(partitions: int, owned: list[int]) -> None:
    async with edge() as port:
        stream = await filled(port, 400, partitions)
        members = [await member(port, stream, name) for name in "abcd"]
        for each in members:
            await each.get(limit=1)
        replies = [await each.get() for each in members]
        names = [row["reservedInstance"] for row in await reservations(port, stream)]
        assert sorted(names.count(name) for name in "abcd") == owned
        seen = [{row["partition"] for row in reply} for reply in replies]
        assert sorted(len(one) for one in seen) == owned, "a surplus instance is given []"
        assert sum(len(one) for one in seen) == len(set().union(*seen)), "nothing is owned twice"


async def test_the_next_get_commits() -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream)
        assert await a.offsets(limit=4) == [0, 1, 2, 3]
        assert (await reservations(port, stream))[0]["committedOffset"] == -1
        assert await a.offsets(limit=4) == [4, 5, 6, 7]
        assert (await reservations(port, stream))[0]["committedOffset"] == 3


async def test_without_commit_on_get_nothing_is_committed() -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream, commitOnGet=False)
        assert [await a.offsets(limit=4) for _ in range(3)] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
        assert (await reservations(port, stream))[0]["committedOffset"] == -1
        await a.call("commit")
        assert (await reservations(port, stream))[0]["committedOffset"] == 9
        assert await a.offsets() == []


async def test_what_was_not_committed_is_read_by_the_next_one() -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream, commitOnGet=False)
        assert await a.offsets(limit=4) == [0, 1, 2, 3]
        port.engine.time_ms += 30_000
        assert await (await member(port, stream, "b")).offsets() == list(range(10))


async def test_a_commit_and_a_get_commit_once() -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream)
        await a.get(limit=4)
        await a.call("commit")
        assert await a.offsets(limit=4) == [4, 5, 6, 7]


async def test_a_heartbeat_keeps_what_an_instance_owns() -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream)
        await a.get(limit=4)
        for _ in range(3):
            port.engine.time_ms += 20_000
            await a.call("heartbeat")
        assert await (await member(port, stream, "b", timeoutInMs=1)).get() == []
        port.engine.time_ms += 1
        assert await a.offsets(limit=4) == [4, 5, 6, 7]
        assert (await reservations(port, stream))[0]["committedOffset"] == 3


async def test_partitions_take_turns() -> None:
    async with edge() as port:
        stream = await filled(port, 60, 3)
        a = await member(port, stream)
        order = [{row["partition"] for row in await a.get(limit=5)} for _ in range(6)]
        assert order == [{"0"}, {"1"}, {"2"}, {"0"}, {"1"}, {"2"}]
        assert len(await a.get()) == 60 - 6 * 5, "one reply may hold several partitions"


async def test_the_type_is_ignored_for_a_group_that_exists() -> None:
    async with edge() as port:
        stream = await filled(port)
        await member(port, stream)
        assert await (await member(port, stream, kind="LATEST")).offsets() == list(range(10))


async def test_where_groups_begin() -> None:
    async with edge() as port:
        stream = await filled(port)
        latest = await member(port, stream, kind="LATEST", groupName="new")
        port.engine.time_ms += 1_000
        later = await member(port, stream, kind="AT_TIME", time=rfc3339(port.engine.time_ms), groupName="timed")
        await put(port, stream, entry(b"v"))
        assert await latest.offsets() == await later.offsets() == [10]


async def test_an_instance_without_a_name_gets_one() -> None:
    async with edge() as port:
        stream = await filled(port, partitions=2)
        for _ in range(2):
            await (await member(port, stream, None)).get()
        names = {row["reservedInstance"] for row in await reservations(port, stream)}
        assert len(names) == 2 and all(len(name) == 36 for name in names)


async def test_a_group_as_it_is_shown() -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream)
        assert await reservations(port, stream) == [{"partition": "0", "committedOffset": -1}]
        await a.get(limit=2)
        until = rfc3339(port.engine.time_ms + 30_000)
        row = {"partition": "0", "committedOffset": -1, "reservedInstance": "a", "timeReservedUntil": until}
        assert await reservations(port, stream) == [row]


@pytest.mark.parametrize(
    ("body", "offsets"),
    [({"type": "TRIM_HORIZON"}, range(10)), ({"type": "LATEST"}, []), ({"time": "1970-01-01T00:00:00Z"}, range(10))],
)
async def test_a_group_is_moved(body: Any, offsets: list[int]) -> None:
    async with edge() as port:
        stream = await filled(port)
        a = await member(port, stream)
        await a.get(limit=5)
        reply = await port.ask("PUT", f"/streams/{stream}/groups/g", body)
        assert (reply.status_code, reply.content) == (204, b"")
        assert len(reply.headers["opc-request-id"].split("/")) == 3
        assert await a.offsets() == list(offsets), "what it read before is not committed over the move"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"type": "LATEST"}, "MissingParameter"),
        ({"groupName": "g"}, "MissingParameter"),
        ({"type": "AT_OFFSET", "groupName": "g"}, "InvalidParameter"),
        ({"type": "AT_TIME", "groupName": "g"}, "MissingParameter"),
        ({"type": "LATEST", "groupName": ""}, "InvalidParameter"),
        ({"type": "LATEST", "groupName": "g", "instanceName": ""}, "InvalidParameter"),
        ({"type": "LATEST", "groupName": "g" * 257}, "InvalidParameter"),
        ({"type": "LATEST", "groupName": "g", "timeoutInMs": 0}, "InvalidParameter"),
        ({"type": "LATEST", "groupName": "g", "timeoutInMs": "soon"}, "InvalidParameter"),
    ],
)
async def test_group_cursors_that_are_refused(body: Any, code: str) -> None:
    async with edge() as port:
        stream = await port.made()
        assert error_of(await port.post(f"/streams/{stream}/groupCursors", body)) == (400, code)


async def test_a_plain_cursor_belongs_to_no_group() -> None:
    async with edge() as port:
        stream = await port.made()
        plain = await partition_cursor(port, stream)
        for what in ("commit", "heartbeat"):
            reply = await port.post(f"/streams/{stream}/{what}", params={"cursor": plain})
            assert error_of(reply) == (400, "InvalidParameter") and "belongs to no group" in reply.json()["message"]


async def test_unknown_groups() -> None:
    async with edge() as port:
        stream = await port.made()
        assert error_of(await port.get(f"/streams/{stream}/groups/no")) == (404, "NotAuthorizedOrNotFound")
        reply = await port.ask("PUT", f"/streams/{stream}/groups/no", {"type": "LATEST"})
        assert error_of(reply) == (404, "NotAuthorizedOrNotFound")
        assert error_of(await port.ask("PUT", f"/streams/{stream}/groups/no", {})) == (400, "MissingParameter")


async def test_a_group_name_may_hold_anything() -> None:
    async with edge() as port:
        stream = await port.made(partitions=1)
        await member(port, stream, groupName="a/b c?")
        reply = await port.get(f"/streams/{stream}/groups/a%2Fb%20c%3F")
        assert reply.status_code == 200 and reply.json()["groupName"] == "a/b c?"


async def test_fifty_groups() -> None:
    async with edge(REAL) as port:
        stream = await port.made(partitions=1)
        for number in range(50):
            await member(port, stream, groupName=f"g{number}")
        reply = await port.post(f"/streams/{stream}/groupCursors", {"type": "LATEST", "groupName": "one more"})
        assert error_of(reply) == (400, "LimitExceeded")


async def test_gets_a_second_of_a_group() -> None:
    async with edge(REAL) as port:
        stream = await filled(port, 40)
        a = await member(port, stream)
        for _ in range(5):
            await a.get(limit=1)
        reply = await port.get(f"/streams/{stream}/messages", params={"cursor": a.cursor})
        assert error_of(reply) == (429, "TooManyRequests")
        other = await member(port, stream, groupName="other")
        assert await other.offsets(limit=1) == [0]
        port.engine.time_ms += 200
        assert await a.offsets(limit=1) == [5], "the refused request took nothing"


async def test_a_group_is_told_from_where_on_it_reads_once_more() -> None:
    """The home has changed, and what the instance had read beyond the start of the epoch was not committed."""
    async with edge() as port:
        stream = await filled(port, 6)
        at = (await member(port, stream)).cursor
        path = f"/streams/{stream}/messages"
        reply = await port.get(path, params={"cursor": at, "limit": 4})
        assert len(reply.json()) == 4 and "crdtstream-moved-back" not in reply.headers
        port.engine.present = (2, 7)
        group = port.engine.streams[stream].groups["g"]
        group.since[0] = group.generation = group.generation + 1
        reply = await port.get(path, params={"cursor": reply.headers["opc-next-cursor"]})
        assert reply.headers["crdtstream-moved-back"] == "0:0" and reply.headers["crdtstream-epoch"] == "2-7.0"
        assert reply.json()[0]["offset"] == 0
        reply = await port.get(path, params={"cursor": reply.headers["opc-next-cursor"]})
        assert "crdtstream-moved-back" not in reply.headers
