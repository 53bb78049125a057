"""Planned moves of groups between regions: a region that does not deliver asks the one that does.

    call   [MOVE_CALL, [true, database, key, group, region, wait_ms, forced]] or [MOVE_CALL, [false, number]]
    reply  [true] or [false, code, text], as to calls of partitioned streams; the text of an error for the client is
           bytes, because it may have a client's bytes in it

The second call says that nobody waits for the call of that number, on the same link, any more. A move that waits then
ends without a change, as it does when the link closes: so a move whose asker is gone moves nothing, or has moved
everything. A region that does not know the call refuses it as one of another release.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from crdtstream.commands.group_moving import end_move, start_move, try_move
from crdtstream.connections.context import CommandError, Context
from crdtstream.connections.moves import MOVED, REFUSED, UNANSWERED, UNREAD, MoveAnswer, MoveOrder
from crdtstream.connections.parking import Parked
from crdtstream.core.keyspace import DATABASES
from crdtstream.partitions.shapes import COUNT, FLAG, OCTETS, TEXT, CallMalformed, NamedShape, fields_in, list_in
from crdtstream.protocols.call_rows import pack, unpack
from crdtstream.protocols.columns import CodecError
from crdtstream.replication.exchange.exchange import Exchange
from crdtstream.replication.links.forwarding import Arrived, CallReplies
from crdtstream.status.availability import PAUSED_NOTHING

MOVE_CALL: Final = "group move"
PREFIX: Final = pack([MOVE_CALL, None])[:-1]
REFUSED_CODE: Final = "REFUSED"
ORDER: Final[list[NamedShape]] = [
    ("database", COUNT),
    ("key", OCTETS),
    ("group", OCTETS),
    ("region", COUNT),
    ("wait_ms", COUNT),
    ("forced", FLAG),
]
NUMBER_ALONE: Final[list[NamedShape]] = [("number", COUNT)]
REFUSAL: Final[list[NamedShape]] = [("text", OCTETS)]
UNKNOWN_CALL: Final[list[NamedShape]] = [("text", TEXT)]
# Of an error with names in it that are longer.
ERROR_BYTES_MAX: Final = 4_096
MALFORMED: Final = "the call cannot be read"


def order_payload(order: MoveOrder) -> bytes:
    database, name = order.key
    return pack([MOVE_CALL, [True, database, name, order.group, order.target, order.wait_ms, order.forced]])


def order_in(fields: list[Any]) -> MoveOrder:
    database, name, group, target, wait_ms, forced = fields_in(fields, ORDER)
    if database >= DATABASES:
        raise CallMalformed(f"there is no database {database}")
    return MoveOrder((database, name), group, target, wait_ms, forced)


def answer_payload(error: str) -> bytes:
    text = error.encode("utf-8", "surrogateescape")[:ERROR_BYTES_MAX]
    return pack([False, REFUSED_CODE, text] if error else [True])


def answer_in(payload: bytes | None) -> MoveAnswer:
    """What came back; None if nothing did."""
    if payload is None:
        return MoveAnswer(UNANSWERED)
    try:
        row = unpack(payload)
        if FLAG.read(row[0]):
            return MoveAnswer(MOVED)
        if len(row) > 1 and row[1] == REFUSED_CODE:
            return MoveAnswer(REFUSED, fields_in(row[2:], REFUSAL)[0].decode("utf-8", "surrogateescape"))
        return MoveAnswer(UNREAD, fields_in(row[2:], UNKNOWN_CALL)[0])
    except (CodecError, CallMalformed) as error:
        return MoveAnswer(UNREAD, str(error))


def is_parked(context: Context, waiter: Parked) -> bool:
    """False once the client has its answer, is gone, or was unblocked."""
    return context.parking.waiters.get(waiter.client.id) is waiter


class WaitingMove:
    """A move that another region asked for, and that waits until nothing is pending; before it has `begun`, for blocks
    alone.
    """

    __slots__ = ("begun", "call", "end_ms", "order")

    def __init__(self, call: Arrived, order: MoveOrder, end_ms: int) -> None:
        self.call = call
        self.order = order
        self.end_ms = end_ms
        self.begun = False


class MoveCalls:
    """The moves that this region was asked for, and those that it has asked others for. `waiting` and `asked` are by
    group and by the number of the call. While there is nothing in them or in `arrived`, there is nothing to do.
    """

    __slots__ = ("_answers", "_context", "_exchange", "_replies", "arrived", "asked", "waiting")

    def __init__(self, exchange: Exchange, context: Context) -> None:
        self._exchange = exchange
        self._context = context
        self.arrived: list[Arrived] = []
        exchange.forwarding.apart[PREFIX] = self.arrived
        self._replies: CallReplies = []
        self._answers: dict[int, MoveAnswer] = {}
        self.asked: dict[int, tuple[int, Parked]] = {}
        self.waiting: list[WaitingMove] = []

    def can_ask(self, region: int, order: MoveOrder) -> bool:
        """True if the region is linked, and the call fits into a message."""
        bytes_max = self._exchange.forwarding.payload_max(region, self._context.limits.message_bytes_max)
        return region in self._exchange.greeted() and len(order_payload(order)) <= bytes_max

    def ask(self, region: int, order: MoveOrder, waiter: Parked) -> int:
        payload = order_payload(order)
        number = self._exchange.ask(region, payload, self._context.now_ms, order.wait_ms, self._replies)
        self.asked[number] = (region, waiter)
        return number

    def answer_to(self, number: int) -> MoveAnswer | None:
        """What came back; nothing while nothing has."""
        return self._answers.get(number)

    def advance(self) -> bool:
        """Go on with all of them; true if an answer came."""
        arrived = self.arrived[:]
        self.arrived.clear()
        for call in arrived:
            self._serve(call)
        for one in self.waiting[:]:
            # It does not wait for itself.
            self.waiting.remove(one)
            self._go_on(one)
        replied = bool(self._replies)
        for number, payload in self._replies:
            if number in self.asked:
                self._answers[number] = answer_in(payload)
        self._replies.clear()
        for number in [number for number, (_, one) in self.asked.items() if not is_parked(self._context, one)]:
            self._abandon(number)
        return replied

    # Asked for elsewhere

    def _abandon(self, number: int) -> None:
        """The client has its answer, or is gone."""
        region, _ = self.asked.pop(number)
        if self._answers.pop(number, None) is None:
            payload = pack([MOVE_CALL, [False, number]])
            # Nobody waits for what comes back.
            self._exchange.ask(region, payload, self._context.now_ms, into=[])

    # Asked for here

    def _serve(self, call: Arrived) -> None:
        """Another region may send anything."""
        try:
            row = unpack(call.payload)
            fields = list_in(row[1]) if len(row) > 1 else []
            if fields and FLAG.read(fields[0]):
                self._begin(call, order_in(fields[1:]))
            else:
                self._end_call(call.link, fields_in(fields[1:], NUMBER_ALONE)[0])
                self._answer(call, "")
        except (CodecError, CallMalformed) as error:
            self._answer(call, f"ERR {MALFORMED}: {error}")

    def _begin(self, call: Arrived, order: MoveOrder) -> None:
        self._go_on(WaitingMove(call, order, self._context.clock.elapsed_ms + order.wait_ms))

    def _refusal(self) -> str:
        """Why a client here could not write now."""
        standing = self._context.standing
        if standing.loading:
            return f"LOADING {standing.loading}"
        if standing.paused != PAUSED_NOTHING:
            return "ERR the region that delivers has paused its clients (CLIENT PAUSE): try again when that has ended"
        return standing.refusal(True, False)

    def _go_on(self, one: WaitingMove) -> None:
        """Make the move, or let it wait; while blocks are read for it, it changes nothing."""
        if not self._exchange.forwarding.is_open(one.call.link):
            self._end_wait(one)
        elif not self._context.deferred_work.run(one, partial(self._look_at, one)):
            self.waiting.append(one)

    def _look_at(self, one: WaitingMove) -> None:
        error = self._refusal() if not one.begun else ""
        try:
            if not error and not (self._try_again(one) if one.begun else start_move(self._context, one.order)):
                one.begun = True
                self.waiting.append(one)
                return
        except CommandError as refused:
            error = refused.text
        self._answer(one.call, error)
        self._end_wait(one)

    def _try_again(self, one: WaitingMove) -> bool:
        if not try_move(self._context, one.order):
            if self._context.clock.elapsed_ms < one.end_ms:
                return False
            end_move(self._context, one.order)
        return True

    def _end_wait(self, one: WaitingMove) -> None:
        """Readers may get something new again."""
        self._context.deferred_work.forget(one)
        self._context.replica.changed.touched[one.order.key] = None

    def _end_call(self, link: int, number: int) -> None:
        ended = [one for one in self.waiting if (one.call.link, one.call.number) == (link, number)]
        self.waiting = [one for one in self.waiting if one not in ended]
        for one in ended:
            self._end_wait(one)

    def _answer(self, call: Arrived, error: str) -> None:
        self._exchange.forwarding.answer(call, answer_payload(error))
