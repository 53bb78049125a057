"""Writes streams as Redis protocol: what `redis-cli --pipe` loads into a Redis server.

The entries are those of all regions, merged, as this region shows them; of entries with one ID the first is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, BinaryIO

from crdtstream.migration.source import START, MigrationError, groups_of, pages, state_of
from crdtstream.migration.statements import XADD, Statement, Word, adding, expiring, grouping, settling


def export_stream(client: Any, key: bytes, out: BinaryIO, page: int, advance: Callable[[int], None]) -> int:
    """Write the commands that make the stream; return the number of its entries."""
    # Imported only here: a region starts without it, and sooner.
    from redis import RedisError

    count = 0
    try:
        for entries in pages(client, key, START, page):
            write(out, [adding(XADD, key, entry) for entry in entries])
            count += len(entries)
            advance(len(entries))
        state, groups = state_of(client, key), groups_of(client, key)
    except RedisError as error:
        raise MigrationError(f"stream {key!r} is not complete in the output: {error}") from error
    if not count:
        # XSETID needs a key, and XGROUP CREATE may not come.
        write(out, [["XADD", key, "MAXLEN", 0, "0-1", "f", "v"]])
    write(out, [settling(key, state), *expiring(key, state)])
    for group in groups:
        write(out, list(grouping(key, group)))
    return count


def write(out: BinaryIO, statements: list[Statement]) -> None:
    for statement in statements:
        out.write(b"*%d\r\n" % len(statement))
        for word in map(encoded, statement):
            out.write(b"$%d\r\n%s\r\n" % (len(word), word))


def encoded(word: Word) -> bytes:
    return word if isinstance(word, bytes) else str(word).encode()
