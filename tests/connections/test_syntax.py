"""Lines of syntax: what each sign means, and what is refused. The lines of the commands are compared with Redis."""

from __future__ import annotations

import pytest

from crdtstream.connections.syntax import Argument, SyntaxFault, arguments_of


def text_of(argument: Argument) -> str:
    """Everything that is known, in an order of its own."""
    parts = [argument.kind, argument.token, argument.shown if argument.shown != argument.name else ""]
    parts += [argument.since, argument.deprecated, str(argument.key_index) if argument.key_index >= 0 else ""]
    parts += ["optional" if argument.optional else "", "multiple" if argument.multiple else ""]
    inner = ", ".join(map(text_of, argument.children))
    return " ".join([argument.name, *filter(None, parts)]) + (f" ({inner})" if inner else "")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("", []),
        ("message", ["message string"]),
        ("count#", ["count integer"]),
        ("pattern unix-time-seconds", ["pattern pattern", "unix-time-seconds unix-time"]),
        ("source destination", ["source key 0", "destination key 1"]),
        ("key...", ["key key 0 multiple"]),
        ("[count#]", ["count integer optional"]),
        ("[a]...", ["a string optional multiple"]),
        ("[section...]", ["section string optional multiple"]),
        ("NOACK", ["noack pure-token NOACK"]),
        ("COUNT count#", ["count integer COUNT"]),
        ("NOW FORCE", ["now pure-token NOW", "force pure-token FORCE"]),
        ("FULL [COUNT count#]", ["full pure-token FULL", "count integer COUNT optional"]),
        ("addr=ip:port@6.2.0!7.0.0", ["addr string ip:port 6.2.0 7.0.0"]),
        ("count#=how-many", ["count integer how-many"]),
        ("NX@7.0.0", ["nx pure-token NX 7.0.0"]),
        ("op:<= | ~>", ["op oneof (equal pure-token =, approximately pure-token ~)"]),
        ("id:<* | $ | id>", ["id oneof (auto-id pure-token *, new-id pure-token $, id string)"]),
        ("[TYPE type:<A | B>@5.0.0]", ["type oneof TYPE 5.0.0 optional (a pure-token A, b pure-token B)"]),
        ("data:(field value)...", ["data block multiple (field string, value string)"]),
        ("S streams:(key... id...)", ["streams block S (key key 0 multiple, id string multiple)"]),
        ("x:<[ID id#@2.0.0...] | y>", ["x oneof (id integer ID 2.0.0 optional multiple, y string)"]),
    ],
)
def test_lines(line: str, expected: list[str]) -> None:
    assert [text_of(argument) for argument in arguments_of(line)] == expected


@pytest.mark.parametrize(
    "line", ["[count", "a ]", "[a b]", "[]", "x:<A | B", "x:(a", "x:(a>", "a|b", "#", "a#b", "..."]
)
def test_what_cannot_be_read(line: str) -> None:
    with pytest.raises(SyntaxFault):
        arguments_of(line)
