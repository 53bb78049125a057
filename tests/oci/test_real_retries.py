"""The SDK of OCI with its default retries: what may succeed later is repeated by it, and succeeds."""

from __future__ import annotations

import time

import httpx

from tests.oci.fake_engine import FakeEngine
from tests.oci.ports import served
from tests.oci.sdk import Clients, oci, refused


class Living(FakeEngine):
    """Its time passes."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def test_rates_slow_a_client_down() -> None:
    with served(Living(), oci_limits="real") as url:
        clients = Clients(url, retries=oci.retry.DEFAULT_RETRY_STRATEGY)
        stream = clients.stream("orders", 1)
        clients.put(stream, *[(None, str(number)) for number in range(20)])
        cursor, seen = clients.group_cursor(stream), []
        for _ in range(8):
            values, cursor = clients.get(stream, cursor, limit=1)
            seen += values
        assert seen == [str(number) for number in range(8)], "the refused requests lost nothing"


def test_injected_errors_are_recovered() -> None:
    with served(FakeEngine()) as url:
        clients = Clients(url, retries=oci.retry.DEFAULT_RETRY_STRATEGY)
        stream = clients.stream("orders", 1)
        # This seed strikes the first of the requests that follow, and not the second.
        rules = {"seed": 1, "rules": [{"operation": "CreateCursor", "status": 503, "probability": 0.5}]}
        assert httpx.post(f"{url}/dev/faults", json=rules).status_code == 204
        assert clients.cursor(stream)


def test_errors_of_the_client_are_not_repeated() -> None:
    with served(FakeEngine()) as url:
        clients = Clients(url, retries=oci.retry.DEFAULT_RETRY_STRATEGY)
        began_s = time.monotonic()
        assert refused(clients.data.get_group, "no", "g")[0] == 404
        stream = clients.stream("orders", 1)
        assert refused(clients.stream, "orders", 1)[0] == 409
        assert refused(clients.data.get_messages, stream, "garbled")[0] == 400
        assert refused(clients.admin.delete_stream, stream, if_match="old")[0] == 412
        assert time.monotonic() - began_s < 10
