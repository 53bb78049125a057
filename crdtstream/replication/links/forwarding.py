"""Calls between regions: a region asks another one to carry out something, over their link.

A call has a number; its reply carries the same one. A reply tells of changes, so it waits until their records may be
seen by peers, as batches do. A call ends without a reply when its link closes or its time is over; then nobody knows
whether it was carried out. Nothing here outlives a link.
"""

from __future__ import annotations

from typing import Final

from crdtstream.replication import wire_pb2 as wire

# What a call or a reply costs in a message besides its payload, about.
OVERHEAD_BYTES: Final = 16
# A call must fit into a message together with other content.
MESSAGE_SHARE: Final = 2
# Of a reply whose turn has not ended.
UNSEALED: Final = -1
# The number of a call that has ended, and what came back.
CallReplies = list[tuple[int, bytes | None]]


class Queued:
    """A payload to be sent; a reply is sent once peers may see the log up to `position`."""

    __slots__ = ("number", "payload", "position")

    def __init__(self, number: int, payload: bytes, position: int) -> None:
        self.number = number
        self.payload = payload
        self.position = position


class Arrived:
    """A call of a peer, to be carried out and answered on the same link."""

    __slots__ = ("link", "number", "payload")

    def __init__(self, link: int, number: int, payload: bytes) -> None:
        self.link = link
        self.number = number
        self.payload = payload


class Forwarding:
    """The calls in both directions of all links. `replies`: the number of each own call that has ended, and what came
    back, None if nothing did. `apart`: calls that begin with these bytes, which another part of the region carries out;
    that part also has replies of its own.
    """

    __slots__ = ("_bounds", "_calls", "_last", "_waiting", "answers", "apart", "arrived", "replies")

    def __init__(self) -> None:
        self.arrived: list[Arrived] = []
        self.apart: dict[bytes, list[Arrived]] = {}
        self.replies: CallReplies = []
        self._last = 0
        # Own calls without a reply: number -> link, deadline, and where the reply goes.
        self._waiting: dict[int, tuple[int, int, CallReplies]] = {}
        self._calls: dict[int, list[Queued]] = {}
        self.answers: dict[int, list[Queued]] = {}
        # Link -> the peer's region, and the size of a message that it takes.
        self._bounds: dict[int, tuple[int, int]] = {}

    # Bounds

    def bound(self, link: int, region: int, message_bytes_max: int) -> None:
        """The region at the other end of this link takes messages of this size."""
        self._bounds[link] = (region, message_bytes_max)

    def payload_max(self, region: int, message_bytes_max: int) -> int:
        """The size of a call to that region, which must fit into a message, here of at most this size, together with
        other content.
        """
        taken = [size for other, size in self._bounds.values() if other == region]
        return min([message_bytes_max, *taken]) // MESSAGE_SHARE

    def reply_max(self, link: int, message_bytes_max: int) -> int:
        """The same for a reply over this link."""
        return min(message_bytes_max, self._bounds.get(link, (0, message_bytes_max))[1]) // MESSAGE_SHARE

    def is_open(self, link: int) -> bool:
        return link in self._bounds

    # Own calls

    def next_number(self) -> int:
        self._last += 1
        return self._last

    def ask(self, number: int, link: int, payload: bytes, deadline_ms: int, replies: CallReplies | None = None) -> None:
        self._waiting[number] = (link, deadline_ms, self.replies if replies is None else replies)
        self._calls.setdefault(link, []).append(Queued(number, payload, 0))

    def receive_answer(self, link: int, number: int, payload: bytes) -> None:
        """A reply that nobody waits for any more is dropped."""
        waiting = self._waiting.get(number)
        if waiting is not None and waiting[0] == link:
            self._end(number, payload)

    def _end(self, number: int, payload: bytes | None) -> None:
        self._waiting.pop(number)[2].append((number, payload))

    def tick(self, now_ms: int) -> None:
        for number in [number for number, (_, deadline_ms, _) in self._waiting.items() if deadline_ms <= now_ms]:
            self._end(number, None)

    def drain_replies(self) -> CallReplies:
        taken = self.replies[:]
        self.replies.clear()
        return taken

    # Calls of peers

    def receive_call(self, link: int, number: int, payload: bytes) -> None:
        for prefix, calls in self.apart.items():
            if payload.startswith(prefix):
                calls.append(Arrived(link, number, payload))
                return
        self.arrived.append(Arrived(link, number, payload))

    def drain_arrived(self) -> list[Arrived]:
        taken, self.arrived = self.arrived, []
        return taken

    def answer(self, call: Arrived, payload: bytes) -> None:
        self.answers.setdefault(call.link, []).append(Queued(call.number, payload, UNSEALED))

    def end_turn(self, position: int) -> None:
        """What was answered in this turn may be sent once peers may see the log up to this position."""
        for answers in self.answers.values():
            for one in reversed(answers):
                if one.position != UNSEALED:
                    break
                one.position = position

    # Links

    def fill(self, message: wire.Message, link: int, bytes_max: int, served_position: int) -> None:
        """Add what may go out over this link: about `bytes_max` together at most, or one that is larger."""
        calls = pop_due(self._calls, link, bytes_max, served_position)
        for one in calls:
            message.calls.add(number=one.number, payload=one.payload)
            bytes_max -= len(one.payload) + OVERHEAD_BYTES
        if calls and bytes_max <= 0:
            return
        for one in pop_due(self.answers, link, bytes_max, served_position, bool(calls)):
            message.answers.add(number=one.number, payload=one.payload)

    def leave(self, link: int) -> None:
        """The link is closed: what was asked over it stays without a reply."""
        self._calls.pop(link, None)
        self.answers.pop(link, None)
        self._bounds.pop(link, None)
        for calls in (self.arrived, *self.apart.values()):
            calls[:] = [call for call in calls if call.link != link]
        for number in [number for number, (asked, _, _) in self._waiting.items() if asked == link]:
            self._end(number, None)

    def check(self) -> None:
        for link, calls in self._calls.items():
            for one in calls:
                assert one.number not in self._waiting or self._waiting[one.number][0] == link, "a call on two links"


def pop_due(
    queues: dict[int, list[Queued]], link: int, bytes_max: int, served_position: int, together: bool = False
) -> list[Queued]:
    """The first ones that fit; one that does not may go unless it goes `together` with others."""
    waiting = queues.get(link)
    if not waiting:
        return []
    count = 0
    for one in waiting:
        bytes_max -= len(one.payload) + OVERHEAD_BYTES
        if one.position == UNSEALED or one.position > served_position or ((count or together) and bytes_max < 0):
            break
        count += 1
    due = waiting[:count]
    if count == len(waiting):
        del queues[link]
    else:
        queues[link] = waiting[count:]
    return due
