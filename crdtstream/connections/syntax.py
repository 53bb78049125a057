"""A notation for the arguments of commands, parsed from the line in each row and returned by COMMAND DOCS.

    key COUNT count [NOACK]         a value; a token with its value; an optional argument that is only a token
    count#  id...  key              an integer; one or more; `key` and the other names in KEYS are keys, in that order
    strategy:<MAXLEN | MINID>       one of several
    data:(field value)...           several that belong together
    name=shown@7.0.0!7.2.0          display text, version that introduced it, version that deprecated it

A word in capitals, or a sign in SIGNS, is a token: it belongs to the value or group after it, or else stands alone.

Reference: `commandDocsCommand` of Redis, and its commands' JSON files.
"""

from __future__ import annotations

import re
from typing import Final

SIGNS: Final = {"*": "auto-id", "$": "new-id", "=": "equal", "~": "approximately"}
KEYS: Final = {"key": 0, "source": 0, "destination": 1, "newkey": 1}
PIECE: Final = re.compile(r"[a-z-]+:[(<]|\.\.\.|[])>[|]|(?:(?!\.\.\.)[^\s\[\]()<>|])+")
WORD: Final = re.compile(r"([^@!#=]+|=)(#?)(?:=([^@!]+))?(?:@([\d.]+))?(?:!([\d.]+))?")
CLOSING: Final = frozenset("])>|")
NO_KEY: Final = -1
SINCE: Final = "@"
GROUPS: Final = {"(": "block", "<": "oneof"}


class SyntaxFault(ValueError):
    """A line that does not follow the notation."""


class Argument:
    """One argument; one of kind `oneof` or `block` has `children`."""

    __slots__ = (
        "children",
        "deprecated",
        "key_index",
        "kind",
        "multiple",
        "name",
        "optional",
        "shown",
        "since",
        "token",
    )

    def __init__(self, name: str, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.shown = name
        self.token = ""
        self.since = ""
        self.deprecated = ""
        self.key_index = NO_KEY
        self.optional = False
        self.multiple = False
        self.children: list[Argument] = []


class Reader:
    """A parser for one line, from left to right."""

    def __init__(self, line: str) -> None:
        self._line = line
        self._pieces: list[str] = PIECE.findall(line)
        self._at = 0

    def whole(self) -> list[Argument]:
        found = self._sequence()
        if self._next():
            raise SyntaxFault(f"unexpected {self._next()} in: {self._line}")
        return found

    def _next(self) -> str:
        """The next piece; empty at the end."""
        return self._pieces[self._at] if self._at < len(self._pieces) else ""

    def _pop(self) -> str:
        piece = self._next()
        self._at += 1
        return piece

    def _expect(self, wanted: str) -> None:
        if self._pop() != wanted:
            raise SyntaxFault(f"{wanted} is missing in: {self._line}")

    def _sequence(self) -> list[Argument]:
        """The consecutive arguments up to a closing piece."""
        found: list[Argument] = []
        while self._next() and self._next() not in CLOSING:
            found.append(self._argument())
        return found

    def _argument(self) -> Argument:
        piece = self._pop()
        if piece == "[":
            found = self._optional()
        elif piece[-2:] in (":(", ":<"):
            found = self._group(piece)
        else:
            found = argument_of(piece)
            if found.kind == "pure-token" and self._begins_value():
                token, found = found.token, self._argument()
                found.token = token
        if self._next() == "...":
            self._pop()
            found.multiple = True
        return found

    def _begins_value(self) -> bool:
        """True if the next piece starts a value or a group, to which the preceding token belongs."""
        piece = self._next()
        if not piece or piece in CLOSING or piece[0] in "[.@":
            return False
        return piece[-2:] in (":(", ":<") or argument_of(piece).kind != "pure-token"

    def _optional(self) -> Argument:
        found = self._sequence()
        self._expect("]")
        if len(found) != 1:
            raise SyntaxFault(f"[ ] must hold one argument, not {len(found)}, in: {self._line}")
        found[0].optional = True
        return found[0]

    def _group(self, opening: str) -> Argument:
        group = Argument(opening[:-2], GROUPS[opening[-1]])
        if group.kind == "block":
            group.children = self._sequence()
            self._expect(")")
        else:
            group.children = self._alternatives()
            self._expect(">")
        if self._next().startswith(SINCE):
            group.since = self._pop()[1:]
        return group

    def _alternatives(self) -> list[Argument]:
        found = [self._argument()]
        while self._next() == "|":
            self._pop()
            found.append(self._argument())
        return found


def argument_of(word: str) -> Argument:
    """A single word: a token, or a value whose type follows from its name."""
    match = WORD.fullmatch(word)
    if match is None or word == "...":
        raise SyntaxFault(f"{word} is not an argument")
    name = match[1]
    if name in SIGNS or name == name.upper():
        found = Argument(SIGNS.get(name, name.lower()), "pure-token")
        found.token = name
    else:
        found = Argument(name, "integer" if match[2] else kind_of(name))
        found.key_index = KEYS.get(name, NO_KEY)
    found.shown = match[3] or found.name
    found.since, found.deprecated = match[4] or "", match[5] or ""
    return found


def kind_of(name: str) -> str:
    if name in KEYS:
        return "key"
    if name == "pattern":
        return name
    return "unix-time" if name.startswith("unix-time") else "string"


def arguments_of(line: str) -> list[Argument]:
    return Reader(line).whole()
