"""Entries column by column, as they compress best where they are alike: readings of a sensor, rows of a table.

Entries of one shape consist of the same number of *tokens*, which CRLF ends: `*2`, the length of the ID, the ID, the
number of fields, and a length and a value for each name and each value. In column layout the first tokens of all
entries come first, then the second ones, and so on. So a name, which is the same in all entries, is there once, and
numbers of one kind lie beside each other. IDs are left out, because the columns of the block have them.

    width | for each column 1, or 0 if all its tokens are the same | the tokens, of such a column only one

Nothing is assumed of the tokens but their number and where the IDs are, so every sequence of bytes that has these comes
back as it was.

Checkpoints keep the result on disk inside packed blocks, so it is part of their format.

Reference: column stores, such as C-Store (Stonebraker et al., 2005).
"""

from __future__ import annotations

from typing import Final

CRLF: Final = b"\r\n"
# `*2`, the length of the ID, and the ID.
ID_TOKENS: Final = 3
WIDTH_MAX: Final = 255


def to_column_layout(data: bytes, ids: list[bytes]) -> bytes:
    """The entries with these IDs, at least one, in column layout; empty if they differ in shape."""
    count, tokens = len(ids), data.split(CRLF)
    if tokens.pop() or len(tokens) % count:
        return b""
    size = len(tokens) // count
    if not ID_TOKENS < size <= WIDTH_MAX + ID_TOKENS or tokens[ID_TOKENS - 1 :: size] != ids:
        return b""
    differs = bytearray()
    kept: list[bytes] = []
    for at in range(ID_TOKENS, size):
        column = tokens[at::size]
        alike = column.count(column[0]) == count
        differs.append(0 if alike else 1)
        kept += column[:1] if alike else column
    return bytes([len(differs), *differs]) + CRLF.join(kept)


def from_column_layout(kept: bytes, ids: list[bytes]) -> bytes:
    """The inverse of `to_column_layout`."""
    count, width = len(ids), kept[0]
    differs, given = kept[1 : 1 + width], kept[1 + width :].split(CRLF)
    size = ID_TOKENS + width
    tokens = [b"*2"] * (size * count)
    tokens[1::size] = [b"$%d" % len(one) for one in ids]
    tokens[ID_TOKENS - 1 :: size] = ids
    at = 0
    for column in range(width):
        if differs[column]:
            tokens[ID_TOKENS + column :: size] = given[at : at + count]
            at += count
        else:
            tokens[ID_TOKENS + column :: size] = given[at : at + 1] * count
            at += 1
    tokens.append(b"")
    return CRLF.join(tokens)
