"""Two regions that were cut off from each other, with the real SDK: order, offsets that clients kept, and headers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from crdtstream.processes import waiting
from crdtstream.processes.relay import Relay
from tests.oci.sdk import DEADLINE_S, Clients, gateways, oci, unb64

COUNT = 20


class Split:
    """Regions east, the home of a stream of one partition, and west; the network between them can be cut."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.relays = [stack.enter_context(Relay()) for _ in range(2)]
        both = stack.enter_context(gateways(directory, 2, self.relays, takeover_ms=0))
        self.east, self.west = both
        self.here, self.there = (Clients(gateway.url) for gateway in both)

    def cut(self) -> None:
        for relay in self.relays:
            relay.cut()

    def heal(self) -> None:
        for relay in self.relays:
            relay.heal()


@pytest.fixture
def split(tmp_path: Path) -> Iterator[Split]:
    with ExitStack() as stack:
        yield Split(tmp_path, stack)


def until(done: Callable[[], object]) -> None:
    waiting.until(done, "what the test waits for", DEADLINE_S)


def values(clients: Clients, stream: str) -> list[str]:
    return clients.get(stream, clients.cursor(stream))[0]


def known(clients: Clients, stream: str) -> bool:
    try:
        clients.cursor(stream)
    except oci.exceptions.ServiceError:
        return False
    return True


def refusal(clients: Clients, stream: str, offset: int) -> str:
    """Why there is no cursor behind this offset; empty if there is one."""
    try:
        clients.cursor(stream, kind="AFTER_OFFSET", offset=offset)
    except oci.exceptions.ServiceError as error:
        return str(error)
    return ""


def put(clients: Clients, stream: str, *texts: str) -> list[int]:
    """Put each after the one before was answered; what the region cannot place yet is put again."""
    offsets = []
    for text in texts:
        result = clients.put(stream, ("k", text))
        while result.failures:
            result = clients.put(stream, ("k", text))
        offsets.append(result.entries[0].offset)
    return offsets


def test_order_after_a_split(split: Split) -> None:
    here, there = split.here, split.there
    stream = here.stream("orders", 1)
    assert put(here, stream, "before") == [0]
    until(lambda: known(there, stream) and values(there, stream) == ["before"])
    group = here.group_cursor(stream)
    split.cut()
    old = [f"old{number}" for number in range(COUNT)]
    assert put(here, stream, *old) == list(range(1, COUNT + 1))
    read, group = here.get(stream, group)
    assert read == ["before", *old]
    split.west.region.ask("CRDT.TAKEOVER", stream)
    put(there, stream, "x", "y")
    split.heal()
    until(lambda: split.west.region.open_links())
    # It may still be numbered by east, which has not heard of the takeover, or by west: it comes last, anyway.
    put(here, stream, "next")
    expected = ["before", "x", "y", *old, "next"]
    until(lambda: values(here, stream) == values(there, stream) == expected)
    reply = here.data.get_messages(stream, group)
    assert reply.headers["crdtstream-moved-back"] == "0:1"
    assert reply.headers["crdtstream-epoch"] == f"2-{split.west.region.origin()}"
    assert [unb64(message.value) for message in reply.data] == expected[1:], "what was committed stays so"


def test_a_stored_offset_in_a_region_that_lags(split: Split) -> None:
    here, there = split.here, split.there
    stream = here.stream("orders", 1)
    put(here, stream, "a")
    until(lambda: known(there, stream) and values(there, stream) == ["a"])
    split.cut()
    last = put(here, stream, "b", "c")[-1]
    cursor = there.cursor(stream, kind="AFTER_OFFSET", offset=last)
    assert there.get(stream, cursor)[0] == []
    split.heal()
    put(here, stream, "d")
    assert there.get_until(stream, cursor, 1)[0] == ["d"]
    # The home is asked, and a link may be replaced by another one at first: without the home nobody knows.
    until(lambda: "is not in partition 0" in refusal(there, stream, 1_000))


def test_a_stored_offset_that_the_new_home_does_not_know(split: Split) -> None:
    """The cursor was made before the takeover, or after it: nothing that the new home numbers is left out."""
    here, there = split.here, split.there
    stream = here.stream("orders", 1)
    put(here, stream, "a")
    until(lambda: known(there, stream) and values(there, stream) == ["a"])
    split.cut()
    last = put(here, stream, "b", "c", "d")[-1]
    early = there.cursor(stream, kind="AFTER_OFFSET", offset=last)
    split.west.region.ask("CRDT.TAKEOVER", stream)
    put(there, stream, "x")
    late = there.cursor(stream, kind="AFTER_OFFSET", offset=last)
    assert [there.get(stream, cursor)[0] for cursor in (early, late)] == [["x"], ["x"]]
    split.heal()
    assert there.get_until(stream, late, 4)[0] == ["x", "b", "c", "d"], "what it had read at east comes again"
