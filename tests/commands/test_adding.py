"""The arguments of XADD and XTRIM: what is read, and what Redis would say of the rest."""

from __future__ import annotations

import pytest

from crdtstream.commands import adding
from crdtstream.commands.adding import LIMIT_ALONE, LIMIT_EXACT, TWO_STRATEGIES
from crdtstream.commands.arguments import INVALID_ID, SYNTAX
from crdtstream.commands.integers import NOT_AN_INTEGER
from crdtstream.core.values.entry_id import EntryId
from tests.commands.parsing import refused, words

ARITY = "ERR wrong number of arguments for 'xadd' command"
TRIM_WHAT = "ERR syntax error, XTRIM must be called with a trimming strategy"


@pytest.mark.parametrize(
    ("text", "kind", "ms", "seq"),
    [
        (b"*", adding.AUTO, 0, 0),
        (b"5-*", adding.AUTO_SEQ, 5, 0),
        (b"5", adding.MS_ONLY, 5, 0),
        (b"5-6", adding.FULL, 5, 6),
    ],
)
def test_new_ids(text: bytes, kind: int, ms: int, seq: int) -> None:
    new_id = adding.parse_new_id(text)
    assert (new_id.kind, new_id.ms, new_id.seq) == (kind, ms, seq)


@pytest.mark.parametrize("text", [b"-", b"+", b"-*", b"*-*", b"*-1", b"x-*", b"1-2-*", b"MAXLEN", b"$"])
def test_what_is_no_new_id(text: bytes) -> None:
    refused(lambda: adding.parse_new_id(text), INVALID_ID)


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
    options = adding.parse_trim(words("XTRIM s " + line))
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
    refused(lambda: adding.parse_trim(words("XTRIM s " + line)), text)


@pytest.mark.parametrize(
    ("limit", "node_entries", "expected"),
    [(None, 100, 10_000), (None, 0, 10_000), (None, 50_000, 1_000_000), (0, 100, None), (7, 100, 7)],
)
def test_how_much_one_approximate_trim_removes(limit: int | None, node_entries: int, expected: int | None) -> None:
    options = adding.TrimOptions()
    options.limit = limit
    assert options.removals_max(node_entries) == expected


def test_options_of_xadd_in_any_order() -> None:
    options = adding.parse_add(words("XADD s LIMIT 5 NOMKSTREAM maxlen ~ 7 nomkstream 5-* f v g w"))
    assert (options.no_mkstream, options.trim.keep, options.trim.limit) == (True, 7, 5)
    assert (options.new_id.kind, options.new_id.ms, options.fields_at) == (adding.AUTO_SEQ, 5, 10)


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
    refused(lambda: adding.parse_add(words("XADD s " + line)), text)
