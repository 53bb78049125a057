"""Calls of partitioned streams and the replies to them, as they are carried out here or travel to the home.

    call   [operation, stream, arguments...]     reply   [true, result...] or [false, code, text]

Each is a class, and `CALLS` says how it travels. What arrives is read once, as a whole, before anything is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeVar

from crdtstream.core.values.causality import Dot
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.shapes import (
    COUNT,
    FLAG,
    NOTHING,
    NUMBER,
    TEXT,
    CallMalformed,
    NamedShape,
    Shape,
    fields_in,
    list_in,
    optional,
    record_of,
)
from crdtstream.partitions.value_shapes import BOOKMARK, EPOCH, MESSAGES, POLLED, RESERVATIONS, STAMPS
from crdtstream.partitions.values import Bookmark, NewMessage, Polled, Refused, Reservation, Stamp
from crdtstream.protocols.call_rows import CallRow as Row
from crdtstream.protocols.call_rows import pack, unpack
from crdtstream.protocols.columns import CodecError

# Calls


@dataclass(frozen=True)
class PutCall:
    stream: str
    messages: list[NewMessage]


@dataclass(frozen=True)
class JoinCall:
    stream: str
    group: str
    start: str
    time_ms: int
    groups_max: int


@dataclass(frozen=True)
class PollCall:
    stream: str
    group: str
    instance: str
    timeout_ms: int
    bookmark: Bookmark
    commits: bool


@dataclass(frozen=True)
class CommitCall:
    stream: str
    group: str
    instance: str
    timeout_ms: int
    bookmark: Bookmark


@dataclass(frozen=True)
class HeartbeatCall:
    stream: str
    group: str
    instance: str
    timeout_ms: int
    bookmark: Bookmark


@dataclass(frozen=True)
class GroupCall:
    stream: str
    group: str


@dataclass(frozen=True)
class ResetCall:
    stream: str
    group: str
    start: str
    time_ms: int


@dataclass(frozen=True)
class LocateCall:
    """Not a call of a client: under which epoch this offset is."""

    stream: str
    partition: int
    offset: int


GroupsCall = JoinCall | PollCall | CommitCall | HeartbeatCall | GroupCall | ResetCall
HomeCall = PutCall | GroupsCall | LocateCall


# Replies


@dataclass(frozen=True)
class ToldVector:
    """What the home says besides the stamps: its last effect, and the number of its epoch."""

    dot: Dot
    number: int


@dataclass(frozen=True)
class PutReply:
    """`told` is None where the call was carried out here, and by a home of an earlier release."""

    stamps: list[Stamp]
    told: ToldVector | None


@dataclass(frozen=True)
class BookmarkReply:
    """To those that join, commit, or tell that they live."""

    bookmark: Bookmark


@dataclass(frozen=True)
class PollReply:
    polled: Polled


@dataclass(frozen=True)
class GroupReply:
    reservations: list[Reservation]


@dataclass(frozen=True)
class ResetReply:
    nothing: None


@dataclass(frozen=True)
class LocateReply:
    """None if nobody has the offset."""

    epoch: Epoch | None


@dataclass(frozen=True)
class RefusalReply:
    code: str
    text: str


HomeReply = PutReply | BookmarkReply | PollReply | GroupReply | ResetReply | LocateReply | RefusalReply
Answer = TypeVar("Answer")

# How they travel

TOLD_FIELDS: Final[list[NamedShape]] = [("origin", COUNT), ("counter", COUNT), ("epoch number", COUNT)]


def told_vector_in(value: Any) -> ToldVector:
    origin, counter, number = fields_in(value, TOLD_FIELDS)
    return ToldVector((origin, counter), number)


def put_reply_in(value: Any) -> PutReply:
    stamps: NamedShape = ("stamps", STAMPS)
    if len(list_in(value)) == 1:
        return PutReply(fields_in(value, [stamps])[0], None)
    return PutReply(*fields_in(value, [stamps, ("told", TOLD)]))


def put_reply_row(reply: PutReply) -> Row:
    told = [] if reply.told is None else [TOLD.write(reply.told)]
    return [STAMPS.write(reply.stamps), *told]


TOLD: Final = Shape(told_vector_in, lambda told: [*told.dot, told.number])
STREAM: Final[list[NamedShape]] = [("stream", TEXT)]
GROUP: Final[list[NamedShape]] = [*STREAM, ("group", TEXT)]
START: Final[list[NamedShape]] = [*GROUP, ("start", TEXT), ("time_ms", NUMBER)]
INSTANCE: Final[list[NamedShape]] = [*GROUP, ("instance", TEXT), ("timeout_ms", NUMBER), ("bookmark", BOOKMARK)]

REPLIES: Final[dict[type, Shape]] = {
    PutReply: Shape(put_reply_in, put_reply_row),
    BookmarkReply: record_of(BookmarkReply, [("bookmark", BOOKMARK)]),
    PollReply: record_of(PollReply, [("polled", POLLED)]),
    GroupReply: record_of(GroupReply, [("reservations", RESERVATIONS)]),
    ResetReply: record_of(ResetReply, [("nothing", NOTHING)]),
    LocateReply: record_of(LocateReply, [("epoch", optional(EPOCH))]),
    RefusalReply: record_of(RefusalReply, [("code", TEXT), ("text", TEXT)]),
}


class CallForm:
    """The class of a call, what it has, and the class of the reply unless it is refused."""

    __slots__ = ("kind", "reply", "shape")

    def __init__(self, kind: type, fields: list[NamedShape], reply: type) -> None:
        self.kind = kind
        self.shape = record_of(kind, fields)
        self.reply = reply


CALLS: Final[dict[str, CallForm]] = {
    "put": CallForm(PutCall, [*STREAM, ("messages", MESSAGES)], PutReply),
    "join": CallForm(JoinCall, [*START, ("groups_max", NUMBER)], BookmarkReply),
    "poll": CallForm(PollCall, [*INSTANCE, ("commits", FLAG)], PollReply),
    "commit": CallForm(CommitCall, INSTANCE, BookmarkReply),
    "heartbeat": CallForm(HeartbeatCall, INSTANCE, BookmarkReply),
    "group": CallForm(GroupCall, GROUP, GroupReply),
    "reset": CallForm(ResetCall, START, ResetReply),
    "locate": CallForm(LocateCall, [*STREAM, ("partition", COUNT), ("offset", NUMBER)], LocateReply),
}
NAMES: Final[dict[type, str]] = {form.kind: name for name, form in CALLS.items()}


class CallUnknown(CallMalformed):
    """A call of another release."""


def call_row(call: HomeCall) -> Row:
    name = NAMES[type(call)]
    return [name, *CALLS[name].shape.write(call)]


def call_in(row: Row) -> HomeCall:
    name = TEXT.read(row[0])
    form = CALLS.get(name)
    if form is None:
        raise CallUnknown(repr(name))
    call: HomeCall = form.shape.read(row[1:])
    return call


def reply_row(reply: HomeReply) -> Row:
    return [not isinstance(reply, RefusalReply), *REPLIES[type(reply)].write(reply)]


def reply_in(row: Row, call: HomeCall) -> HomeReply:
    kind = CALLS[NAMES[type(call)]].reply if FLAG.read(row[0]) else RefusalReply
    reply: HomeReply = REPLIES[kind].read(row[1:])
    return reply


def pack_call(call: HomeCall) -> bytes:
    return pack(call_row(call))


def unpack_call(payload: bytes) -> HomeCall:
    return call_in(row_in(payload))


def pack_reply(reply: HomeReply) -> bytes:
    return pack(reply_row(reply))


def unpack_reply(payload: bytes, call: HomeCall) -> HomeReply:
    """The reply to this call."""
    return reply_in(row_in(payload), call)


def row_in(payload: bytes) -> Row:
    try:
        return unpack(payload)
    except CodecError as error:
        raise CallMalformed(str(error)) from error


# Refusals


def refusal_of(refused: Refused) -> RefusalReply:
    return RefusalReply(refused.code, refused.text)


def expect(reply: HomeReply, kind: type[Answer]) -> Answer:
    """The reply, which is of this class; raises Refused if it is a refusal."""
    if isinstance(reply, RefusalReply):
        raise Refused(reply.code, reply.text)
    assert isinstance(reply, kind), f"a reply of another class: {reply}"
    return reply
