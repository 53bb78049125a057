"""The port to the log for its readers: peers are served from the log, and storage implements the port."""

from __future__ import annotations

from typing import Protocol

LogRecord = tuple[int, int, bytes]
# What a record holds, or parts that join to it: entries go to the disk from where they lie, without a copy.
Payload = bytes | list[bytes]
# A record that is to be appended: its kind, and what it holds.
NewRecord = tuple[int, Payload]


def joined(payload: Payload) -> bytes:
    return payload if isinstance(payload, bytes) else b"".join(payload)


def size_of(payload: Payload) -> int:
    return len(payload) if isinstance(payload, bytes) else sum([len(part) for part in payload])


class Damage:
    """A part of the log that could not be read: where it was found, and the last record lost to peers (inclusive)."""

    __slots__ = ("file", "offset", "reason", "record", "through")

    def __init__(self, file: str, offset: int, record: int, through: int, reason: str) -> None:
        self.file = file
        self.offset = offset
        self.record = record
        self.through = through
        self.reason = reason

    def __repr__(self) -> str:
        return f"Damage({self.file} at byte {self.offset}, record {self.record}: {self.reason})"


class LogReader(Protocol):
    """The read side of the log. Log positions are inclusive and count records."""

    @property
    def first_position(self) -> int:
        """The position of the first retained record, or of the next one if the log is empty."""

    @property
    def last_position(self) -> int: ...

    def read(self, position: int, bytes_max: int) -> list[LogRecord]:
        """Records from `position` on as (position, kind, payload): at most `bytes_max` bytes, or one larger record.

        Empty if the record cannot be read; the log then starts after the damaged part.
        """

    def bytes_from(self, position: int) -> int:
        """The approximate size in bytes of the log from `position` on."""

    @property
    def damages(self) -> list[Damage]:
        """The parts that could not be read since the process started."""
