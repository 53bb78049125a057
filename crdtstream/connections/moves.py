"""A planned move of a group, as one region asks another one for it."""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import Key

# What came of a move that another region was asked for.
MOVED: Final = "moved"
REFUSED: Final = "refused"
UNREAD: Final = "unread"
UNANSWERED: Final = "unanswered"


class MoveOrder:
    """Let region `target` deliver this group. The move waits up to `wait_ms` until nothing is pending; `forced`: then
    it is made although something is.
    """

    __slots__ = ("forced", "group", "key", "target", "wait_ms")

    def __init__(self, key: Key, group: bytes, target: int, wait_ms: int, forced: bool) -> None:
        self.key = key
        self.group = group
        self.target = target
        self.wait_ms = wait_ms
        self.forced = forced


class MoveAnswer:
    """`MOVED`; `REFUSED` with the error for the client; `UNREAD` by a region of another release, with what it said; or
    `UNANSWERED`, after which nobody here knows whether the group was moved.
    """

    __slots__ = ("kind", "text")

    def __init__(self, kind: str, text: str = "") -> None:
        self.kind = kind
        self.text = text
