"""XINFO: its fields and their order, in both protocols, and what it refuses."""

from __future__ import annotations

import pytest

from crdtstream.core.local_facts import ConsumerCreated
from crdtstream.protocols import replies
from tests.commands.stream_region import Region


def row(*items: object) -> bytes:
    """An array of integers, strings, None and replies that are made already (in a list)."""
    return replies.array([item_of(item) for item in items])


def item_of(item: object) -> bytes:
    if item is None:
        return b"$-1\r\n"
    if isinstance(item, list):
        return b"".join(item)
    return replies.integer(item) if isinstance(item, int) else replies.bulk(str(item).encode())


def entry(entry_id: str) -> bytes:
    return row(entry_id, [row("f", "v")])


def properties(length: int, blocks: int, top: str, deleted: str, added: int, first: str) -> list[object]:
    tree = ["radix-tree-keys", blocks, "radix-tree-nodes", blocks + 1]
    ids = ["last-generated-id", top, "max-deleted-entry-id", deleted]
    settings = ["idmp-duration", 100, "idmp-maxsize", 100]
    counts = ["pids-tracked", 0, "iids-tracked", 0, "iids-added", 0, "iids-duplicates", 0]
    last = ["entries-added", added, "recorded-first-entry-id", first]
    return ["length", length, *tree, *ids, *last, *settings, *counts]


@pytest.fixture
def region() -> Region:
    """Four entries of which 2-0 is deleted; group g has read two of three for consumer c and knows d."""
    region = Region()
    for ms in (1, 2, 3, 4):
        region.say(f"XADD s {ms} f v")
    region.say("XDEL s 2-0")
    region.create_group()
    region.replica.record(ConsumerCreated((0, b"s"), b"g", b"d", 900))
    region.read_group(-1, 2)
    region.create_group((4, 0), b"a")
    region.replica.keyspace.now_ms = 1_500
    return region


def test_the_summary(region: Region) -> None:
    ends = ["first-entry", [entry("1-0")], "last-entry", [entry("4-0")]]
    assert region.say("XINFO STREAM s") == row(*properties(3, 1, "4-0", "2-0", 4, "1-0"), "groups", 2, *ends)


def test_the_summary_of_an_empty_stream() -> None:
    region = Region()
    region.say("XADD s 1-1 f v")
    region.say("XDEL s 1-1")
    ends = ["first-entry", None, "last-entry", None]
    assert region.say("XINFO STREAM s") == row(*properties(0, 0, "1-1", "1-1", 1, "0-0"), "groups", 0, *ends)


def full_groups(pending: list[bytes], own: list[bytes]) -> bytes:
    c = row("name", "c", "seen-time", 1000, "active-time", 1000, "pel-count", 2, "pending", [replies.array(own)])
    d = row("name", "d", "seen-time", 900, "active-time", -1, "pel-count", 0, "pending", [row()])
    lists = ["pel-count", 2, "nacked-count", 0, "pending", [replies.array(pending)], "consumers", [row([c], [d])]]
    g = row("name", "g", "last-delivered-id", "3-0", "entries-read", None, "lag", None, *lists)
    lists = ["pel-count", 0, "nacked-count", 0, "pending", [row()], "consumers", [row()]]
    a = row("name", "a", "last-delivered-id", "4-0", "entries-read", None, "lag", 0, *lists)
    return row([a], [g])


def test_all_of_it(region: Region) -> None:
    entries = row([entry("1-0")], [entry("3-0")], [entry("4-0")])
    groups = full_groups(
        [row("1-0", "c", 1000, 1), row("3-0", "c", 1000, 1)], [row("1-0", 1000, 1), row("3-0", 1000, 1)]
    )
    expected = row(*properties(3, 1, "4-0", "2-0", 4, "1-0"), "entries", [entries], "groups", [groups])
    for line in ("XINFO STREAM s FULL", "xinfo stream s full count 0", "XINFO STREAM s FULL COUNT -1"):
        assert region.say(line) == expected


def test_count_bounds_entries_and_pending_entries(region: Region) -> None:
    groups = full_groups([row("1-0", "c", 1000, 1)], [row("1-0", 1000, 1)])
    entries = row([entry("1-0")])
    expected = row(*properties(3, 1, "4-0", "2-0", 4, "1-0"), "entries", [entries], "groups", [groups])
    assert region.say("XINFO STREAM s FULL COUNT 1") == expected


def test_ten_entries_unless_told() -> None:
    region = Region()
    for ms in range(1, 13):
        region.say(f"XADD s {ms} f v")
    reply = region.say("XINFO STREAM s FULL")
    assert reply is not None and entry("10-0") in reply and entry("11-0") not in reply


def test_groups(region: Region) -> None:
    a = row("name", "a", "consumers", 0, "pending", 0, "last-delivered-id", "4-0", "entries-read", None, "lag", 0)
    g = row("name", "g", "consumers", 2, "pending", 2, "last-delivered-id", "3-0", "entries-read", None, "lag", None)
    assert region.say("XINFO GROUPS s") == row([a], [g])


def test_no_groups() -> None:
    region = Region()
    region.say("XADD s 1-1 f v")
    assert region.say("XINFO GROUPS s") == b"*0\r\n"


def test_consumers(region: Region) -> None:
    c = row("name", "c", "pending", 2, "idle", 500, "inactive", 500)
    d = row("name", "d", "pending", 0, "idle", 600, "inactive", -1)
    assert region.say("XINFO CONSUMERS s g") == row([c], [d])
    assert region.say("XINFO CONSUMERS s a") == b"*0\r\n"


def test_maps_and_nulls_in_protocol_3(region: Region) -> None:
    third = region.new_client(3)
    groups = region.call("XINFO", "GROUPS", "s", client=third)
    assert groups is not None and groups.startswith(b"*2\r\n%6\r\n") and b"$3\r\nlag\r\n_\r\n" in groups
    consumers = region.call("XINFO", "CONSUMERS", "s", "g", client=third)
    assert consumers is not None and consumers.startswith(b"*2\r\n%4\r\n")
    summary = region.call("XINFO", "STREAM", "s", client=third)
    assert summary is not None and summary.startswith(b"%16\r\n")
    full = region.call("XINFO", "STREAM", "s", "FULL", client=third)
    assert full is not None and full.startswith(b"%15\r\n")
    assert b"groups\r\n*2\r\n%8\r\n" in full and b"consumers\r\n*2\r\n%5\r\n" in full


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("XINFO", "ERR wrong number of arguments for 'xinfo' command"),
        ("XINFO FOO s", "ERR unknown subcommand 'FOO'. Try XINFO HELP."),
        ("XINFO STREAM", "ERR wrong number of arguments for 'xinfo|stream' command"),
        ("XINFO CONSUMERS s", "ERR wrong number of arguments for 'xinfo|consumers' command"),
        ("XINFO STREAM nokey FOO", "ERR no such key"),
        ("XINFO GROUPS nokey", "ERR no such key"),
        ("XINFO CONSUMERS nokey g", "ERR no such key"),
        ("XINFO CONSUMERS s nog", "NOGROUP No such consumer group 'nog' for key name 's'"),
        ("XINFO STREAM s FOO", "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."),
        ("XINFO STREAM s FULL 1", "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP."),
        (
            "XINFO STREAM s FULL X 1",
            "ERR unknown subcommand or wrong number of arguments for 'STREAM'. Try XINFO HELP.",
        ),
        ("XINFO STREAM s FULL COUNT x", "ERR value is not an integer or out of range"),
    ],
)
def test_xinfo_refuses(region: Region, line: str, text: str) -> None:
    assert region.say(line) == b"-" + text.encode() + b"\r\n"


def test_help() -> None:
    reply = Region().say("XINFO HELP")
    assert reply is not None and reply.startswith(b"*9\r\n+XINFO <subcommand> ")
