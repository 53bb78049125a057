"""The commands of actions."""

from __future__ import annotations

import shlex

import pytest

from crdtstream.dashboard.actions import ACTIONS, FieldMissing, command_line, filled

FULL = {"key": b"s", "group": b"g", "ids": b"1-1, 2-1", "consumer": b"c", "threshold": b"5", "position": b"0-0"}
FULL |= {"member": b"west"}


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("destroy", "XGROUP DESTROY s g"),
        ("trim", "XTRIM s MAXLEN 5"),
        ("ack", "XACK s g 1-1 2-1"),
        ("claim", "XCLAIM s g c 0 1-1 2-1 JUSTID"),
        ("reset", "XGROUP SETID s g 0-0"),
        ("evict", "CRDT.EVICT west"),
        ("leave", "CRDT.LEAVE"),
    ],
)
def test_each_command(name: str, line: str) -> None:
    action = ACTIONS[name]
    assert command_line(action.words(filled(action, FULL))) == line


def test_every_field_is_needed_or_has_a_default() -> None:
    for action in ACTIONS.values():
        for field in action.fields:
            if not field.missing and field.name != "force":
                with pytest.raises(FieldMissing, match=field.name):
                    action.words(filled(action, {**FULL, field.name: b""}))


def test_an_eviction_is_forced_by_a_word() -> None:
    assert ACTIONS["evict"].words({"member": b"west", "force": b"Yes"})[-1] == b"FORCE"


def test_a_trim_knows_two_ways() -> None:
    with pytest.raises(FieldMissing):
        ACTIONS["trim"].words({**FULL, "how": b"FLUSHALL"})


def test_a_command_is_shown_as_redis_cli_reads_it() -> None:
    assert command_line([b"XLEN", b"a b"]) == 'XLEN "a b"'
    assert command_line([b"XLEN", b'"\\\xff\n']) == r'XLEN "\"\\\xff\x0a"'
    assert command_line([b"XLEN", b""]) == 'XLEN ""'
    assert shlex.split(command_line([b"XGROUP", b"SETID", b"it's", b"g", b"$"])) == [
        "XGROUP",
        "SETID",
        "it's",
        "g",
        "$",
    ]
