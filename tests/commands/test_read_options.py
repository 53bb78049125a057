"""The options of XREAD and XREADGROUP: what is read, and what Redis would say of the rest."""

from __future__ import annotations

import pytest

from crdtstream.commands.arguments import COUNT_ALL, SYNTAX
from crdtstream.commands.integers import NOT_AN_INTEGER
from crdtstream.commands.read_options import parse_read
from tests.commands.parsing import refused, words


def test_what_xread_reads() -> None:
    options = parse_read(words("XREAD block 5 COUNT 2 streams a b 1 $"), 1_000, "xread")
    assert (options.blocking, options.deadline_ms, options.count) == (True, 1_005, 2)
    assert (options.keys, options.ids) == ([b"a", b"b"], [b"1", b"$"])
    assert not options.grouped and not options.noack


def test_what_xreadgroup_reads() -> None:
    options = parse_read(words("XREADGROUP NOACK GROUP g c BLOCK 0 STREAMS a >"), 1_000, "xreadgroup")
    assert (options.group, options.consumer, options.noack) == (b"g", b"c", True)
    assert (options.blocking, options.deadline_ms, options.count) == (True, 0, COUNT_ALL)


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
        ("XREAD CLAIM 0 STREAMS s 0", ONLY_GROUPED.format("CLAIM")),
        ("XREADGROUP GROUP g c CLAIM x STREAMS s >", "ERR min-idle-time is not an integer or out of range"),
        ("XREADGROUP GROUP g c CLAIM -1 STREAMS s >", "ERR min-idle-time must be a positive integer"),
        ("XREAD MAXCOUNT 0 STREAMS s 0", "ERR MAXCOUNT must be a positive integer"),
        ("XREAD maxsize x STREAMS s 0", "ERR MAXSIZE must be a positive integer"),
        ("XREAD COUNT 3 MAXCOUNT 2 STREAMS s 0", "ERR MAXCOUNT must be greater than or equal to COUNT"),
        ("XREADGROUP COUNT 1 STREAMS s >", "ERR Missing GROUP option for XREADGROUP"),
    ],
)
def test_reading_refuses(line: str, text: str) -> None:
    argv = words(line)
    refused(lambda: parse_read(argv, 1_000, argv[0].decode().lower()), text)
