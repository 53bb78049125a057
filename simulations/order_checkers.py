"""The order that producers of a partitioned stream are promised.

A producer puts through one region, and sends a message once the one before it was answered. Then every consumer reads
the two in this order from their partition, whichever regions were its home. Repeats do not count: the first offset of
a message decides.
"""

from __future__ import annotations

from itertools import groupby

from crdtstream.connections.clock import STEP_MS_MAX
from simulations.checking import Checker
from simulations.network import Network
from simulations.partition_checkers import known_at_end
from simulations.partition_oracle import Known
from simulations.stream_clients import Put

POWERLESS = ("power", "torn", "disk-error")


class OrderByKey(Checker):
    """A message that was sent through a region after that region had answered another one of its partition lies behind
    it, unless the region lost in between what it had acknowledged, or was too far behind the home to wait for it, or
    the home was evicted.
    """

    name = "order by key"

    def __init__(self) -> None:
        # How often each machine lost something: what its clients were told before that promises nothing afterwards.
        self._losses: dict[int, int] = {}
        self._policies: dict[int, str] = {}
        self._eras: dict[bytes, int] = {}

    def putting(self, world: Network, value: bytes, put: Put) -> None:
        self._eras[value] = self._losses.get(put.number, 0)

    def stopping(self, world: Network, number: int, fault: str) -> None:
        self._policies[number] = world.machines[number].config.fsync

    def started(self, world: Network, number: int, fault: str) -> None:
        kept = fault == "kill" or (fault in POWERLESS and self._policies.get(number) == "always")
        if not kept:
            self._losses[number] = self._losses.get(number, 0) + 1

    def at_end(self, world: Network) -> None:
        clients = world.partitioned
        if clients is None:
            return
        known = known_at_end(world, clients)
        first = {value: at for value, at in first_offsets(known).items() if not known.has_evicted_home(value)}
        kept = [(self._line_of(value, put), put, value) for value, put in clients.told.puts.items() if value in first]
        answered = sorted([one for one in kept if is_promised(world, one[1])], key=lambda one: (one[0], one[1].sent_at))
        for _, line in groupby(answered, key=lambda one: one[0]):
            self._check([(put, value, first[value]) for _, put, value in line])

    def _line_of(self, value: bytes, put: Put) -> tuple[int, int, int]:
        return put.partition, put.number, self._eras[value]

    def _check(self, line: list[tuple[Put, bytes, int]]) -> None:
        """These were sent in this order. Only what was answered before another one was sent precedes it."""
        waiting = sorted(line, key=lambda one: one[0].answered_at)
        highest = (-1, b"")
        at = 0
        for put, value, offset in line:
            while at < len(waiting) and waiting[at][0].answered_at < put.sent_at:
                highest = max(highest, (waiting[at][2], waiting[at][1]))
                at += 1
            if highest[0] > offset:
                before = f"{highest[1]!r} has offset {highest[0]}"
                self.fail(
                    f"region {put.number}, partition {put.partition}: {before}, and {value!r}, sent later, {offset}"
                )


def is_promised(world: Network, put: Put) -> bool:
    """False if the region has answered before it had the message: it waits for that as long as for the home."""
    waited_ms = put.answered_ms - put.sent_ms
    # A clock that is set forward meanwhile takes one step of it.
    least_ms = world.machines[put.number].config.limits.forward_timeout_ms - STEP_MS_MAX
    return put.answered and waited_ms < least_ms


def first_offsets(known: Known) -> dict[bytes, int]:
    """The lowest offset of each message that can be read."""
    found: dict[bytes, int] = {}
    for dot, one in known.numbered.items():
        if known.lives(dot):
            found[one.value] = min(found.get(one.value, one.entry_id[1]), one.entry_id[1])
    return found
