"""The keys of partitioned streams, all in database 0; Redis clients may read them."""

from __future__ import annotations

from typing import Final

from crdtstream.core.effects import Key

PREFIX: Final = b"crdtstream:oci:"


def streams_key() -> Key:
    """The registers of all streams: ID -> what was fixed at creation."""
    return (0, PREFIX + b"streams")


def documents_key(kind: str) -> Key:
    """The documents of one kind: ID -> bytes."""
    return (0, PREFIX + b"documents:" + kind.encode())


def state_key(stream_id: str) -> Key:
    """The epochs, groups and commits of one stream."""
    return (0, PREFIX + b"state:" + stream_id.encode())


def stream_of(name: bytes) -> str | None:
    """The stream that the state or the messages under this name belong to; None for other names."""
    kind, _, rest = name.removeprefix(PREFIX).partition(b":")
    if not name.startswith(PREFIX) or kind not in (b"state", b"messages"):
        return None
    return (rest if kind == b"state" else rest.rpartition(b":")[0]).decode(errors="replace")


def partition_key(stream_id: str, partition: int) -> Key:
    """The messages of one partition."""
    return (0, PREFIX + b"messages:%b:%d" % (stream_id.encode(), partition))
