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


def partition_key(stream_id: str, partition: int) -> Key:
    """The messages of one partition."""
    return (0, PREFIX + b"messages:%b:%d" % (stream_id.encode(), partition))
