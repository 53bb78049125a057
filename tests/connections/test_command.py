"""Rows: keys, HELP of a container, and what `check` refuses."""

from __future__ import annotations

import pytest

from crdtstream.connections.command import Command, help_row, keys_after, keys_at, keys_from
from crdtstream.scenarios.reply import read_reply


def run(_context: object, _client: object, argv: list[bytes]) -> bytes:
    return b"".join(argv)


def row(name: str = "x", flags: str = "", group: str = "stream", summary: str = "Does it.") -> Command:
    return Command(name, run, arity=1, flags=flags, since="0.1.0", group=group, summary=summary)


def subcommand(name: str, *lines: str) -> Command:
    return Command(f"x|{name}", run, arity=2, since="0.1.0", summary="Does it.", help=lines)


def container(help_order: str = "", help: tuple[str, ...] = ()) -> Command:
    children = [subcommand("b", "B <id>", "    Do b."), help_row("x", "0.1.0"), subcommand("a", "A")]
    return Command(
        "x",
        arity=-2,
        since="0.1.0",
        group="stream",
        summary="A container.",
        help=help,
        subcommands=children,
        help_order=help_order,
    )


def helped(command: Command) -> object:
    function = (command.subcommands or {})[b"HELP"].function
    assert function is not None
    return read_reply(function(None, None, []) or b"")


def test_keys() -> None:
    one, two, rest, later = (
        keys_at(1, "RO"),
        keys_at(2, "RM", "OW update"),
        keys_from(1, "RM"),
        keys_after("S", 4, "RO", {}),
    )
    assert [(keys.first, keys.last, keys.step) for keys in (one, two, rest, later)] == [
        (1, 1, 1),
        (2, 3, 1),
        (1, -1, 1),
        (0, 0, 0),
    ]
    assert two.flags == [["RM"], ["OW", "update"]]
    assert Command("x", run, arity=1, flags="write", keys=later).flags == ["write", "movablekeys"]


def test_subcommands_have_the_group_and_the_order_of_their_container() -> None:
    command = container()
    command.check()
    assert [(name, child.group) for name, child in (command.subcommands or {}).items()] == [
        (b"B", "stream"),
        (b"HELP", "stream"),
        (b"A", "stream"),
    ]


def test_help_tells_by_name_unless_an_order_is_given() -> None:
    head, last = "X <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", ["HELP", "    Print this help."]
    assert helped(container()) == [head, "A", "B <id>", "    Do b.", *last]
    assert helped(container("b a", ("(alone)",))) == [head, "(alone)", "B <id>", "    Do b.", "A", *last]
    with pytest.raises(AssertionError, match="HELP leaves some out"):
        container("b")


@pytest.mark.parametrize(
    "command",
    [
        row("X"),
        row(flags="wirte"),
        row(group="streams"),
        row(summary="Does it"),
        Command("x", arity=1, since="0.1.0", group="stream", summary="Does it."),
        Command("x", arity=-2, since="0.1.0", group="stream", summary="Holds.", subcommands=[row("y|a")]),
    ],
)
def test_check(command: Command) -> None:
    row().check()
    with pytest.raises(AssertionError):
        command.check()
