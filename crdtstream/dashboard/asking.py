"""The questions about streams, groups and entries, asked in all regions with a visitor's rights."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from crdtstream.dashboard.decoding import shown
from crdtstream.dashboard.inspection import (
    Entry,
    GroupSide,
    RegionDifference,
    StreamSide,
    comparable,
    entries_of,
    entry_differences,
    group_differences,
    group_side,
    run_differences,
    stream_side,
)
from crdtstream.observing.asking import RegionAnswer, Words
from crdtstream.observing.reading import RedisPorts
from crdtstream.observing.rows import StreamRow, stream_row

FOUND_MAX = 50
SCAN_COUNT = 1_000
# A search that finds little stops after so many keys of each region, and can be continued.
VISITED_MAX = 20_000
SPECIAL = frozenset(b"*?[\\")
PENDING_MAX = 1_000
COMING_MAX = 20
DIFF_ENTRIES = 1_000
RUN_GROUPS_MAX = 20

RedisAddresses = Mapping[str, str]
# Those of the shards that have a key, by region.
AddressesOf = Callable[[bytes], RedisAddresses]
Cursors = dict[str, bytes]


@dataclass(frozen=True)
class SearchPage:
    """A page of a search: the streams by name, in each region; `cursors` is where it goes on, empty at the end."""

    rows: tuple[tuple[bytes, tuple[tuple[str, StreamRow | None], ...]], ...]
    cursors: Mapping[str, bytes]
    errors: tuple[str, ...]


async def search(
    ports: RedisPorts, shards: RedisAddresses, of: AddressesOf, pattern: bytes, cursors: Mapping[str, bytes]
) -> SearchPage:
    """Look for streams whose names match, a page of each region and shard. A pattern that is a name is not searched
    for.
    """
    if not SPECIAL & set(pattern):
        found = await described(ports, of, [pattern])
        return SearchPage(tuple(row for row in found if any(cell is not None for _, cell in row[1])), {}, ())
    begun = cursors or dict.fromkeys(shards, b"0")
    asked = {region: address for region, address in shards.items() if region in begun}
    pages = await asyncio.gather(*[scan(ports, asked[region], pattern, begun[region]) for region in asked])
    names = sorted({name for found, _, _ in pages for name in found})
    following = {region: cursor for region, (_, cursor, _) in zip(asked, pages, strict=True) if cursor != b"0"}
    errors = tuple(f"{region}: {error}" for region, (_, _, error) in zip(asked, pages, strict=True) if error)
    return SearchPage(await described(ports, of, names), following, errors)


async def scan(ports: RedisPorts, address: str, pattern: bytes, cursor: bytes) -> tuple[list[bytes], bytes, str]:
    """Names, the cursor behind them (0 at the end), and an error. The rarer the names are, the more keys are visited
    at once, so that a page is short whatever the pattern.
    """
    found: list[bytes] = []
    visited, count = 0, FOUND_MAX
    while visited < VISITED_MAX:
        answer = await ports.ask(address, "SCAN", cursor, "MATCH", pattern, "COUNT", count)
        if answer.error:
            return found, b"0", answer.error
        cursor, names = answer.value
        found += names
        visited += count
        if cursor == b"0" or len(found) >= FOUND_MAX:
            break
        wanted = (FOUND_MAX - len(found)) * visited // len(found) if found else SCAN_COUNT
        count = max(FOUND_MAX, min(wanted, SCAN_COUNT))
    return found, cursor, ""


async def described(
    ports: RedisPorts, of: AddressesOf, names: Sequence[bytes]
) -> tuple[tuple[bytes, tuple[tuple[str, StreamRow | None], ...]], ...]:
    """The streams with these names, in each region; those of one shard are asked for together."""
    asked: dict[tuple[tuple[str, str], ...], list[bytes]] = {}
    for name in names:
        asked.setdefault(tuple(of(name).items()), []).append(name)
    found = await asyncio.gather(*[described_at(ports, dict(places), own) for places, own in asked.items()])
    return tuple(sorted((row for rows in found for row in rows), key=lambda row: row[0]))


async def described_at(
    ports: RedisPorts, addresses: RedisAddresses, names: Sequence[bytes]
) -> list[tuple[bytes, tuple[tuple[str, StreamRow | None], ...]]]:
    questions: list[Words] = [("XINFO", "STREAM", name) for name in names]
    answers = await ports.ask_all(addresses.values(), questions)
    return [
        (name, tuple((region, row_of(answers[address][at])) for region, address in addresses.items()))
        for at, name in enumerate(names)
    ]


def row_of(answer: RegionAnswer) -> StreamRow | None:
    return None if answer.error else stream_row(answer.value)


async def read_stream(ports: RedisPorts, addresses: RedisAddresses, key: bytes) -> list[StreamSide]:
    questions: list[Words] = [
        ("XINFO", "STREAM", key),
        ("CRDT.DIGEST", key),
        ("CRDT.STREAM", "SHOW", key),
        ("XINFO", "GROUPS", key),
    ]
    answers = await ports.ask_all(addresses.values(), questions, 10.0)
    return [stream_side(region, answers[address]) for region, address in addresses.items()]


async def read_group(ports: RedisPorts, addresses: RedisAddresses, key: bytes, group: bytes) -> list[GroupSide]:
    questions: list[Words] = [
        ("CRDT.GROUP", "SHOW", key, group, "COUNT", COMING_MAX),
        ("XINFO", "CONSUMERS", key, group),
        ("XPENDING", key, group, "-", "+", PENDING_MAX),
    ]
    answers = await ports.ask_all(addresses.values(), questions, 10.0)
    return [group_side(region, answers[address]) for region, address in addresses.items()]


async def read_entries(
    ports: RedisPorts, address: str, key: bytes, start: str, end: str, count: int, newest_first: bool
) -> tuple[tuple[Entry, ...], str]:
    """Entries of one region, and an error."""
    order = ("REV",) if newest_first else ()
    answer = await ports.ask(address, "CRDT.ENTRIES", key, start, end, *order, "COUNT", count, timeout_s=10.0)
    return ((), answer.error) if answer.error else (entries_of(answer.value), "")


async def read_differences(
    ports: RedisPorts, addresses: RedisAddresses, key: bytes, sides: Sequence[StreamSide]
) -> tuple[list[RegionDifference], list[RegionDifference], list[RegionDifference], int]:
    """Entries, groups and runs that not all regions have; and how many of the newest entries were compared."""
    present = {side.region: addresses[side.region] for side in sides if not side.error}
    pages: dict[str, Sequence[Entry]] = {}
    for region, address in present.items():
        entries, error = await read_entries(ports, address, key, "-", "+", DIFF_ENTRIES, True)
        if not error:
            pages[region] = entries
    compared = comparable(pages, DIFF_ENTRIES)
    groups = sorted({row.name for side in sides for row in side.groups})[:RUN_GROUPS_MAX]
    runs: list[RegionDifference] = []
    for group in groups:
        found = await read_group(ports, present, key, group)
        runs += run_differences(shown(group), found)
    count = max((len(entries) for entries in compared.values()), default=0)
    return entry_differences(compared), group_differences(sides), runs, count
