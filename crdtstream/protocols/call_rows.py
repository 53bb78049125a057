"""A call of one region to another, or its reply: one msgpack array of plain values, nested arrays included.

What the values mean is the business of the package that makes the calls.
"""

from __future__ import annotations

from typing import Any

import msgpack

from crdtstream.protocols.columns import CodecError

CallRow = list[Any]


def pack(row: CallRow) -> bytes:
    packed: bytes = msgpack.packb(row)
    return packed


def unpack(payload: bytes) -> CallRow:
    """The array; raises CodecError for anything else."""
    try:
        row = msgpack.unpackb(payload)
    except (ValueError, msgpack.UnpackException) as error:
        raise CodecError(f"not msgpack of this format: {error}") from error
    if not isinstance(row, list) or not row:
        raise CodecError(f"expected a row, not {type(row).__name__}")
    return row
