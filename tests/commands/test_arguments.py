"""IDs, ends of ranges and options: what is read, and what Redis would say of the rest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from crdtstream.clients.context import CommandError
from crdtstream.commands import arguments
from crdtstream.commands.arguments import INVALID_ID, LIMIT_ALONE, LIMIT_EXACT, SYNTAX, TWO_STRATEGIES
from crdtstream.commands.integers import NOT_AN_INTEGER
from crdtstream.core.entry_id import ID_MAX, ID_MIN, U64_MAX, EntryId

LAST = b"%d-%d" % ID_MAX
ARITY = "ERR wrong number of arguments for 'xadd' command"
TRIM_WHAT = "ERR syntax error, XTRIM must be called with a trimming strategy"


def words(line: str) -> list[bytes]:
    return line.encode().split()


def refused(parse: Callable[[], object], text: str) -> None:
    with pytest.raises(CommandError) as caught:
        parse()
    assert caught.value.text == text


# IDs


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        (b"-", ID_MIN, ID_MIN),
        (b"+", ID_MAX, ID_MAX),
        (b"5", (5, 0), (5, U64_MAX)),
        (b"5-3", (5, 3), (5, 3)),
        (b"(5-3", (5, 4), (5, 2)),
        (b"(5", (5, 1), (5, U64_MAX - 1)),
        (b"(5-0", (5, 1), (4, U64_MAX)),
        (b"007-01", (7, 1), (7, 1)),
        (LAST, ID_MAX, ID_MAX),
        (b"4294967296-9007199254740993", (2**32, 2**53 + 1), (2**32, 2**53 + 1)),
    ],
)
def test_ends_of_ranges(text: bytes, start: EntryId, end: EntryId) -> None:
    assert arguments.parse_range_start(text) == start
    assert arguments.parse_range_end(text) == end


@pytest.mark.parametrize(
    "text", [b"", b"(", b"(-", b"(+", b"x", b"-1", b"1-", b"1-2-3", b"1-x", b"1-*", b"18446744073709551616"]
)
def test_what_is_no_end_of_a_range(text: bytes) -> None:
    refused(lambda: arguments.parse_range_start(text), INVALID_ID)
    refused(lambda: arguments.parse_range_end(text), INVALID_ID)


def test_nothing_lies_outside_the_outermost_ids() -> None:
    refused(lambda: arguments.parse_range_start(b"(" + LAST), "ERR invalid start ID for the interval")
    refused(lambda: arguments.parse_range_end(b"(0-0"), "ERR invalid end ID for the interval")
    assert arguments.parse_range_end(b"(" + LAST) == (U64_MAX, U64_MAX - 1)


@pytest.mark.parametrize(
    ("text", "kind", "ms", "seq"),
    [
        (b"*", arguments.AUTO, 0, 0),
        (b"5-*", arguments.AUTO_SEQ, 5, 0),
        (b"5", arguments.MS_ONLY, 5, 0),
        (b"5-6", arguments.FULL, 5, 6),
    ],
)
def test_new_ids(text: bytes, kind: int, ms: int, seq: int) -> None:
    new_id = arguments.parse_new_id(text)
    assert (new_id.kind, new_id.ms, new_id.seq) == (kind, ms, seq)


@pytest.mark.parametrize("text", [b"-", b"+", b"-*", b"*-*", b"*-1", b"x-*", b"1-2-*", b"MAXLEN", b"$"])
def test_what_is_no_new_id(text: bytes) -> None:
    refused(lambda: arguments.parse_new_id(text), INVALID_ID)


# Options


@pytest.mark.parametrize(
    ("line", "count"),
    [("", arguments.COUNT_ALL), ("COUNT 3", 3), ("count 0", 0), ("COUNT -7", 0), ("COUNT 1 COUNT 2", 2)],
)
def test_count(line: str, count: int) -> None:
    assert arguments.parse_count(words(line), 0) == count


@pytest.mark.parametrize(
    ("line", "text"),
    [("COUNT", SYNTAX), ("FOO 1", SYNTAX), ("COUNT 1 COUNT", SYNTAX), ("COUNT x", NOT_AN_INTEGER)],
)
def test_count_refuses(line: str, text: str) -> None:
    refused(lambda: arguments.parse_count(words(line), 0), text)


@pytest.mark.parametrize(
    ("line", "keep", "min_id", "approximate", "limit"),
    [
        ("MAXLEN 3", 3, None, False, None),
        ("maxlen = 3", 3, None, False, None),
        ("MAXLEN ~ 3", 3, None, True, None),
        ("MAXLEN ~ 3 LIMIT 7", 3, None, True, 7),
        ("LIMIT 0 MINID ~ 3", None, (3, 0), True, 0),
        ("MINID 3-4", None, (3, 4), False, None),
        ("MAXLEN 0", 0, None, False, None),
    ],
)
def test_trimming(line: str, keep: int | None, min_id: EntryId | None, approximate: bool, limit: int | None) -> None:
    options = arguments.parse_trim(words("XTRIM s " + line))
    assert (options.keep, options.min_id, options.approximate, options.limit) == (keep, min_id, approximate, limit)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("MAXLEN", SYNTAX),
        ("FOO 1", SYNTAX),
        ("MAXLEN 1 FOO", SYNTAX),
        ("MAXLEN ~ 1 LIMIT", SYNTAX),
        ("NOMKSTREAM MAXLEN 1", SYNTAX),
        ("MAXLEN ~", NOT_AN_INTEGER),
        ("MAXLEN x", NOT_AN_INTEGER),
        ("MAXLEN 01", NOT_AN_INTEGER),
        ("MAXLEN +1", NOT_AN_INTEGER),
        ("MAXLEN 9223372036854775808", NOT_AN_INTEGER),
        ("MAXLEN ~ 1 LIMIT x", NOT_AN_INTEGER),
        ("MAXLEN -1", "ERR The MAXLEN argument must be >= 0."),
        ("MAXLEN ~ 1 LIMIT -1", "ERR The LIMIT argument must be >= 0."),
        ("MINID -", INVALID_ID),
        ("MAXLEN 1 MAXLEN 1", TWO_STRATEGIES),
        ("MINID 1 MAXLEN 1", TWO_STRATEGIES),
        ("LIMIT 1", LIMIT_ALONE),
        ("LIMIT 0", TRIM_WHAT),
        ("MAXLEN 1 LIMIT 1", LIMIT_EXACT),
        ("MAXLEN = 1 LIMIT 0", LIMIT_EXACT),
    ],
)
def test_trimming_refuses(line: str, text: str) -> None:
    refused(lambda: arguments.parse_trim(words("XTRIM s " + line)), text)


@pytest.mark.parametrize(
    ("limit", "node_entries", "expected"),
    [(None, 100, 10_000), (None, 0, 10_000), (None, 50_000, 1_000_000), (0, 100, None), (7, 100, 7)],
)
def test_how_much_one_approximate_trim_removes(limit: int | None, node_entries: int, expected: int | None) -> None:
    options = arguments.TrimOptions()
    options.limit = limit
    assert options.removals_max(node_entries) == expected


def test_options_of_xadd_in_any_order() -> None:
    options = arguments.parse_add(words("XADD s LIMIT 5 NOMKSTREAM maxlen ~ 7 nomkstream 5-* f v g w"))
    assert (options.no_mkstream, options.trim.keep, options.trim.limit) == (True, 7, 5)
    assert (options.new_id.kind, options.new_id.ms, options.fields_at) == (arguments.AUTO_SEQ, 5, 10)


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("* f", ARITY),
        ("* f v g", ARITY),
        ("NOMKSTREAM NOMKSTREAM NOMKSTREAM", ARITY),
        ("MAXLEN ~ 5 LIMIT 1", ARITY),
        ("x f", INVALID_ID),
        ("MAXLEN ~ 5 LIMIT", INVALID_ID),
        ("MAXLEN 10 ~ f v", INVALID_ID),
        ("LIMIT 1 x f v", INVALID_ID),
        ("LIMIT 1 5-1 f v", LIMIT_ALONE),
        ("LIMIT 0 5-1 f v", LIMIT_EXACT),
        ("MINID ~ 10 LIMIT 5 MAXLEN 10 0-0 f v", TWO_STRATEGIES),
    ],
)
def test_xadd_refuses(line: str, text: str) -> None:
    refused(lambda: arguments.parse_add(words("XADD s " + line)), text)


def test_what_xread_reads() -> None:
    options = arguments.parse_read(words("XREAD block 5 COUNT 2 streams a b 1 $"), 1_000, "xread")
    assert (options.blocking, options.deadline_ms, options.count) == (True, 1_005, 2)
    assert (options.keys, options.ids) == ([b"a", b"b"], [b"1", b"$"])
    assert not options.grouped and not options.noack


def test_what_xreadgroup_reads() -> None:
    options = arguments.parse_read(words("XREADGROUP NOACK GROUP g c BLOCK 0 STREAMS a >"), 1_000, "xreadgroup")
    assert (options.group, options.consumer, options.noack) == (b"g", b"c", True)
    assert (options.blocking, options.deadline_ms, options.count) == (True, 0, arguments.COUNT_ALL)


UNBALANCED = "ERR Unbalanced '{}' list of streams: for each stream key {} must be specified."
ONLY_GROUPED = "ERR The {} option is only supported by XREADGROUP. You called XREAD instead."


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("XREAD STREAMS a b 0", UNBALANCED.format("xread", "an ID, '+', or '$'")),
        ("XREADGROUP GROUP g c STREAMS a b 0", UNBALANCED.format("xreadgroup", "an ID or '>'")),
        ("XREAD COUNT 1 s 0", SYNTAX),
        ("XREAD COUNT 1 STREAMS", SYNTAX),
        ("XREAD COUNT 1 BLOCK 2", SYNTAX),
        ("XREAD FOO STREAMS s 0", SYNTAX),
        ("XREAD COUNT x STREAMS s 0", NOT_AN_INTEGER),
        ("XREAD BLOCK -1 STREAMS s 0", "ERR timeout is negative"),
        ("XREAD BLOCK STREAMS s 0", "ERR timeout is not an integer or out of range"),
        ("XREAD NOACK STREAMS s 0", ONLY_GROUPED.format("NOACK")),
        ("XREAD GROUP g c STREAMS s 0", ONLY_GROUPED.format("GROUP")),
        ("XREAD GROUP g", SYNTAX),
        ("XREADGROUP COUNT 1 STREAMS s >", "ERR Missing GROUP option for XREADGROUP"),
    ],
)
def test_reading_refuses(line: str, text: str) -> None:
    argv = words(line)
    refused(lambda: arguments.parse_read(argv, 1_000, argv[0].decode().lower()), text)
