"""The target of the commands notices commands that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from crdtstream.commands.table import TABLE
from crdtstream.connections.context import CommandError
from crdtstream.protocols import replies
from fuzz import commanding
from fuzz.engine import TARGETS, Failed, search

INPUTS = 60


def test_the_story_begins_with_all_that_requests_are_about() -> None:
    machine = commanding.RegionStateMachine()
    machine.begin()
    assert machine.region.line("XLEN s") == replies.integer(25)
    assert machine.region.line("XINFO GROUPS s") and machine.region.line("XPENDING s g")
    assert commanding.digest(machine.region.replica) == machine.digest_elsewhere()


def changes_and_refuses(context: Any, client: Any, argv: list[bytes]) -> bytes:
    context.replica.count_add((0, b"s"))
    raise CommandError("ERR too late")


def reads_and_refuses(context: Any, client: Any, argv: list[bytes]) -> bytes:
    context.replica.keyspace.ensure((0, b"new"))
    raise CommandError("ERR a key that is only looked for is made")


def fails(context: Any, client: Any, argv: list[bytes]) -> bytes:
    raise KeyError(argv[0])


def forgets_the_end(context: Any, client: Any, argv: list[bytes]) -> bytes:
    return b"*2\r\n:1\r\n"


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (changes_and_refuses, "an error changed something"),
        (reads_and_refuses, "an error changed something"),
        (fails, "xlen"),
        (forgets_the_end, "cut off"),
    ],
)
def test_a_command_that_is_wrong_is_noticed(monkeypatch: pytest.MonkeyPatch, function: Any, what: str) -> None:
    monkeypatch.setattr(TABLE[b"XLEN"], "function", function)
    with pytest.raises(Failed) as failed:
        search(TARGETS["commands"], seed=1, runs=INPUTS, shrink=False)
    cause = failed.value.__cause__
    assert cause is not None and what in str(cause).lower()
    assert any("requests:" in note for note in cause.__notes__)
