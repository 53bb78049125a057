"""What a visitor may do to a stream, a group or a region: the commands, as words, made of the fields of a form. Pure.

The command is shown before it runs, and is made again from the same fields when it does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

KEY, GROUP = "key", "group"
FormFields = Mapping[str, bytes]


class FieldMissing(ValueError):
    """A field that the command needs is empty or wrong."""


@dataclass(frozen=True)
class FormField:
    """A field of a form."""

    name: str
    label: str
    hint: str = ""
    missing: str = ""


@dataclass(frozen=True)
class Action:
    """One thing to do: its form, and the command that it makes."""

    name: str
    title: str
    told: str
    fields: tuple[FormField, ...]
    words: Callable[[FormFields], list[bytes]]


def needed(fields: FormFields, name: str) -> bytes:
    value = fields.get(name, b"")
    if not value:
        raise FieldMissing(f"fill in: {name}")
    return value


def ids(fields: FormFields) -> list[bytes]:
    found = needed(fields, "ids").replace(b",", b" ").split()
    if not found:
        raise FieldMissing("fill in: ids")
    return found


def destroy(fields: FormFields) -> list[bytes]:
    return [b"XGROUP", b"DESTROY", needed(fields, KEY), needed(fields, GROUP)]


def trim(fields: FormFields) -> list[bytes]:
    how = needed(fields, "how").upper()
    if how not in (b"MAXLEN", b"MINID"):
        raise FieldMissing("how is MAXLEN or MINID")
    return [b"XTRIM", needed(fields, KEY), how, needed(fields, "threshold")]


def acknowledge(fields: FormFields) -> list[bytes]:
    return [b"XACK", needed(fields, KEY), needed(fields, GROUP), *ids(fields)]


def claim(fields: FormFields) -> list[bytes]:
    key, group = needed(fields, KEY), needed(fields, GROUP)
    return [b"XCLAIM", key, group, needed(fields, "consumer"), needed(fields, "idle"), *ids(fields), b"JUSTID"]


def reset(fields: FormFields) -> list[bytes]:
    return [b"XGROUP", b"SETID", needed(fields, KEY), needed(fields, GROUP), needed(fields, "position")]


def evict(fields: FormFields) -> list[bytes]:
    force = [b"FORCE"] if fields.get("force", b"").lower() == b"yes" else []
    return [b"CRDT.EVICT", needed(fields, "member"), *force]


def leave(_: FormFields) -> list[bytes]:
    return [b"CRDT.LEAVE"]


STREAM, OF_GROUP = FormField(KEY, "Stream"), FormField(GROUP, "Group")
IDS = FormField("ids", "IDs", "with spaces between them")

ACTIONS = {
    action.name: action
    for action in (
        Action(
            "reset",
            "Reset a group",
            "Moves the position of the group in this region only. What lies behind it is delivered again there, also"
            " what was acknowledged.",
            (STREAM, OF_GROUP, FormField("position", "Position", "an ID, 0 for the beginning, $ for the end")),
            reset,
        ),
        Action(
            "ack",
            "Acknowledge entries",
            "Acknowledges pending entries of this region, everywhere and for good.",
            (STREAM, OF_GROUP, IDS),
            acknowledge,
        ),
        Action(
            "claim",
            "Claim entries",
            "Gives pending entries of this region to another consumer.",
            (
                STREAM,
                OF_GROUP,
                FormField("consumer", "Consumer"),
                FormField("idle", "Idle for at least, ms", missing="0"),
                IDS,
            ),
            claim,
        ),
        Action(
            "destroy",
            "Destroy a group",
            "Removes the group in all regions, with its pending entries. A concurrent creation elsewhere loses.",
            (STREAM, OF_GROUP),
            destroy,
        ),
        Action(
            "trim",
            "Trim a stream",
            "Removes the oldest entries that this region has, in all regions. What arrives later stays.",
            (
                STREAM,
                FormField("how", "MAXLEN or MINID", missing="MAXLEN"),
                FormField("threshold", "Entries that stay, or the lowest ID"),
            ),
            trim,
        ),
        Action(
            "evict",
            "Evict a region",
            "Ends the membership of another region for ever; the chosen region performs it. It cannot be taken back.",
            (
                FormField("member", "Region or origin to evict", "its name or number"),
                FormField("force", "Although it is linked", "yes"),
            ),
            evict,
        ),
        Action(
            "leave",
            "Leave",
            "The chosen region hands over what it has, ends its membership, and its process ends.",
            (),
            leave,
        ),
    )
}


def filled(action: Action, parameters: FormFields) -> dict[str, bytes]:
    """The fields of its form: what was given, or their defaults."""
    return {field.name: parameters.get(field.name, field.missing.encode()) for field in action.fields}


def command_line(words: list[bytes]) -> str:
    """The command as it would be typed into redis-cli."""
    return " ".join(quoted(word) for word in words)


def quoted(word: bytes) -> str:
    """As redis-cli reads it: plain, or in double quotes with escapes."""
    plain = word.decode("ascii", "replace")
    if word and all(letter.isalnum() or letter in "-_.:$*/+@" for letter in plain) and plain.isascii():
        return plain
    return '"' + "".join(escaped(byte) for byte in word) + '"'


def escaped(byte: int) -> str:
    letter = chr(byte)
    if letter in '"\\':
        return f"\\{letter}"
    return letter if 32 <= byte < 127 else f"\\x{byte:02x}"
