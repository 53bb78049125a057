"""What keeps the messages of one producer in order, whichever region numbers them.

A producer puts through one region, and sends a message once the one before it was answered. The home may change in
between, and what a former home numbered without knowing of that is numbered again. So, of each partition:

    a region forwards a put    once the home has every message that is here, and none of them is still to be numbered
                               again, by the epochs that the home knew when it first said so; a call of a group once
                               the home has every commit that is here
    a region hands on a reply  once the messages that it tells of are here, and need not be numbered again
    a home numbers a put       once it has numbered again what its epoch, or another change of the line, made stale

The second rule waits for `forward_timeout_ms` at most, because the message is safe at its home. The other two refuse a
put that has waited for so long: nobody has numbered it, so it may be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.partitions.calls import (
    HomeCall,
    HomeReply,
    LocateCall,
    PutCall,
    PutReply,
    RefusalReply,
    ToldVector,
    unpack_reply,
)
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.performing import partitions_of
from crdtstream.partitions.shapes import CallMalformed
from crdtstream.partitions.state import StreamState
from crdtstream.partitions.values import UNREACHABLE, UNWRITABLE, Refused, Stamp
from crdtstream.replication.values.progress import ProgressTable

NOT_REACHED: Final = RefusalReply(UNREACHABLE, "the home region of the stream cannot be reached: try again")
BEHIND: Final = RefusalReply(
    UNREACHABLE,
    "the home region of the stream has not taken in what this region numbered before: try again",
)


class Unplaced(Refused):
    """There are messages that have to be numbered again before these."""

    def __init__(self) -> None:
        super().__init__(UNWRITABLE, "this region is numbering again what another home has numbered: try again")


class OrderPeer(Protocol):
    """What is asked of a session."""

    peer_origin: int
    peer_region: int

    @property
    def is_open(self) -> bool: ...


class HeldCall:
    """A call that is not sent yet. It waits until the region has served for so long: a clock that is set forward would
    end the wait, and with it the order.
    """

    __slots__ = ("call", "number", "until_ms")

    def __init__(self, number: int, call: HomeCall, until_ms: int) -> None:
        self.number = number
        self.call = call
        self.until_ms = until_ms


class HeldReply:
    """A reply that tells of messages that are not here yet, or that have to be numbered again."""

    __slots__ = ("held", "reply", "told")

    def __init__(self, held: HeldCall, reply: PutReply, told: ToldVector) -> None:
        self.held = held
        self.reply = reply
        self.told = told


class Forwarded:
    """The calls that were sent to a home, by their numbers over the link, and the replies that are not handed on."""

    __slots__ = ("_calls", "_held", "_replies")

    def __init__(self) -> None:
        self._calls: dict[int, HeldCall] = {}
        self._held: list[HeldReply] = []
        self._replies: list[tuple[int, HomeReply]] = []

    def record(self, asked: int, held: HeldCall) -> None:
        self._calls[asked] = held

    def receive(self, asked: int, payload: bytes | None) -> None:
        """What came back; None if nothing did."""
        held = self._calls.pop(asked)
        reply = NOT_REACHED if payload is None else readable(payload, held.call)
        if isinstance(reply, PutReply) and reply.told is not None:
            self._held.append(HeldReply(held, reply, reply.told))
        else:
            self._replies.append((held.number, reply))

    def drain(self, elapsed_ms: int, is_here: Callable[[HeldReply], bool]) -> list[tuple[int, HomeReply]]:
        """The replies that are to be handed on, each with the number of its call."""
        found, self._replies = self._replies, []
        waiting, self._held = self._held, []
        for one in waiting:
            if elapsed_ms >= one.held.until_ms or is_here(one):
                found.append((one.held.number, one.reply))
            else:
                self._held.append(one)
        return found


def readable(payload: bytes, call: HomeCall) -> HomeReply:
    try:
        return unpack_reply(payload, call)
    except CallMalformed as error:
        return RefusalReply(UNREACHABLE, f"what the home region sent cannot be read: {error}")


def origins_of(peers: Sequence[OrderPeer], region: int) -> list[int]:
    """The processes of that region with which there are links. Each of them may get the call, and become the home."""
    return [one.peer_origin for one in peers if one.is_open and one.peer_region == region]


class HomesHeard:
    """For each partition and process of the home: the additions by others that it was first heard to have, and its own
    counter then. An epoch that it had raised by then may leave these without a place, so it has to be here, too. One
    that it raises later makes it look for them.
    """

    __slots__ = ("_heard",)

    def __init__(self) -> None:
        self._heard: dict[int, dict[int, tuple[list[Dot], int]]] = {}

    def lack(self, partition: Partition, homes: list[int], progress: ProgressTable, vector: VersionVector) -> bool:
        """True if one of these has not all that is here, or raised epochs before it had that are not here."""
        additions, before = partition.counters(), self._heard.get(partition.number, {})
        found: dict[int, tuple[list[Dot], int]] = {}
        for home in homes:
            beyond = beyond_home(additions, home)
            heard = before.get(home)
            if heard is not None and heard[0] == beyond:
                found[home] = heard
            elif not is_behind(additions, home, progress):
                found[home] = (beyond, progress.applied_count(home, home) if beyond else 0)
        self._heard[partition.number] = found
        return any(home not in found or not vector.contains(home, found[home][1]) for home in homes)


def must_wait(
    state: StreamState,
    call: HomeCall,
    homes: list[int],
    progress: ProgressTable,
    vector: VersionVector,
    homes_heard: HomesHeard,
) -> bool:
    """True if the messages of this call would come before some that are here, or if a process of the home does not know
    what the group has committed here. Without a link nothing has to wait.
    """
    if isinstance(call, LocateCall) or not homes:
        return False
    if not isinstance(call, PutCall):
        return any(is_behind(state.counters(), home, progress) for home in homes)
    partitions = partitions_of(state, call.messages)
    return any(one.has_unplaced() or homes_heard.lack(one, homes, progress, vector) for one in partitions)


def is_behind(additions: list[Dot], home: int, progress: ProgressTable) -> bool:
    """True if this process of the home has not said that it has all of these additions by others."""
    beyond = beyond_home(additions, home)
    return bool(beyond) and not covers(progress.applied_of(home), beyond)


def beyond_home(additions: list[Dot], home: int) -> list[Dot]:
    return [dot for dot in additions if dot[0] != home]


def covers(vector: VersionVector, dots: list[Dot]) -> bool:
    return all(vector.contains(origin, counter) for origin, counter in dots)


def told_vector_of(replica: Replica, number: int) -> ToldVector:
    return ToldVector((replica.applied.origin, replica.applied.counter()), number)


def is_placed(told: ToldVector, stamps: Sequence[Stamp], partitions: Sequence[Partition]) -> bool:
    """True if none of these messages, which are here, has to be numbered again."""
    origin = told.dot[0]
    return not any(partitions[one.partition].is_unplaced(origin, (told.number, one.offset)) for one in stamps)
