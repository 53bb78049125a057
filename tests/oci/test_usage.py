"""What the gateway counts: answers, latencies, throttled messages and cursors, with labels that clients cannot make."""

from __future__ import annotations

from crdtstream.oci.usage import STATUSES, Usage
from tests.oci.ports import OFF, REAL, edge
from tests.oci.sdk import b64
from tests.runtime.metrics.scraped import scraped


async def test_answers_are_counted_by_operation_and_status() -> None:
    async with edge(OFF) as one:
        stream = await one.made("orders", 1)
        for path in (f"/streams/{stream}", "/streams/ocid1.stream.oc1..none", "/nothing/here"):
            await one.get(path)
        await one.ask("PATCH", f"/streams/{stream}")
        found = scraped(one.gateway.usage.families())
    assert found.value("oci_requests_total", operation="CreateStream", status="200") == 1
    assert found.value("oci_requests_total", operation="GetStream", status="200") == 1
    assert found.value("oci_requests_total", operation="GetStream", status="404") == 1
    assert found.value("oci_requests_total", operation="none", status="404") == 1
    assert found.value("oci_requests_total", operation="none", status="405") == 1
    assert found.value("oci_request_duration_seconds_count", operation="GetStream") == 2
    assert found.value("oci_requests_running") == 0


async def test_messages_and_cursors_are_counted() -> None:
    async with edge(OFF) as one:
        stream = await one.made("orders", 1)
        messages = [{"value": b64(str(number))} for number in range(3)]
        await one.post(f"/streams/{stream}/messages", {"messages": messages})
        details = {"partition": "0", "type": "TRIM_HORIZON"}
        cursor = (await one.post(f"/streams/{stream}/cursors", details)).json()["value"]
        await one.get(f"/streams/{stream}/messages", params={"cursor": cursor, "limit": 2})
        details = {"groupName": "g", "instanceName": "a", "type": "TRIM_HORIZON"}
        cursor = (await one.post(f"/streams/{stream}/groupCursors", details)).json()["value"]
        await one.get(f"/streams/{stream}/messages", params={"cursor": cursor})
        await one.get(f"/streams/{stream}/messages", params={"cursor": "garbled"})
        found = scraped(one.gateway.usage.families())
    assert found.value("oci_messages_put_total", result="stored") == 3
    assert found.value("oci_messages_read_total") == 5
    assert found.value("oci_cursors_issued_total", kind="partition") == 2
    assert found.value("oci_cursors_issued_total", kind="group") == 2
    assert found.value("oci_cursors_refused_total") == 1


async def test_what_is_throttled_is_counted() -> None:
    async with edge(REAL) as one:
        stream = await one.made("orders", 1)
        half = {"messages": [{"value": b64("x" * 600_000)}]}
        for _ in range(2):
            await one.post(f"/streams/{stream}/messages", half)
        details = {"partition": "0", "type": "TRIM_HORIZON"}
        cursor = (await one.post(f"/streams/{stream}/cursors", details)).json()["value"]
        for _ in range(7):
            await one.get(f"/streams/{stream}/messages", params={"cursor": cursor})
        found = scraped(one.gateway.usage.families())
    assert found.value("oci_messages_put_total", result="stored") == 1
    assert found.value("oci_messages_put_total", result="TooManyRequests") == 1
    assert found.value("oci_requests_total", operation="GetMessages", status="200") == 5
    assert found.value("oci_requests_total", operation="GetMessages", status="429") == 2


def test_statuses_that_only_faults_have_are_one_series() -> None:
    usage = Usage()
    for status in range(100, 600):
        usage.record_answer("GetStream", status)
    found = scraped(usage.families())
    assert len(found.labels("oci_requests_total")) == len(STATUSES) + 1
    assert found.value("oci_requests_total", operation="GetStream", status="other") == 500 - len(STATUSES)


def test_a_request_that_fails_is_timed_too() -> None:
    usage = Usage()
    work = usage.timed("GetStream")
    work.__enter__()
    assert usage.running == 1
    assert not work.__exit__(ZeroDivisionError, ZeroDivisionError(), None), "the fault goes on"
    found = scraped(usage.families())
    assert usage.running == 0 and found.value("oci_request_duration_seconds_count", operation="GetStream") == 1
