"""The value of a field as people read it: JSON, text, MessagePack, or bytes in hexadecimal. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

SHOWN_MAX = 4_000
LINE_MAX = 80


@dataclass(frozen=True)
class Decoded:
    """A value as text, and what it was taken for."""

    kind: str
    text: str


def decoded(value: bytes) -> Decoded:
    """Numbers and words are text; JSON is what has members; MessagePack is what is no text and is read to its end."""
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        return unpacked(value) or hexadecimal(value)
    if text[:1] in ("{", "["):
        try:
            return shortened("JSON", laid_out(json.loads(text)))
        except ValueError:
            pass
    if text.isprintable() or all(letter.isprintable() or letter in "\r\n\t" for letter in text):
        return shortened("text", text)
    return unpacked(value) or hexadecimal(value)


def unpacked(value: bytes) -> Decoded | None:
    import msgpack

    try:
        found = msgpack.unpackb(value, raw=False, strict_map_key=False)
    except (ValueError, msgpack.UnpackException, UnicodeDecodeError):
        return None
    if not isinstance(found, dict | list):
        return None
    return shortened("MessagePack", laid_out(found))


def laid_out(value: Any) -> str:
    """On one line where it fits."""
    line = json.dumps(value, ensure_ascii=False, default=text_of)
    return line if len(line) <= LINE_MAX else json.dumps(value, ensure_ascii=False, default=text_of, indent=2)


def text_of(value: Any) -> str:
    """What JSON has no form for."""
    return value.hex(" ") if isinstance(value, bytes) else str(value)


def hexadecimal(value: bytes) -> Decoded:
    return shortened("hex", value.hex(" "))


def shortened(kind: str, text: str) -> Decoded:
    return Decoded(kind, text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]} … ({len(text):,} characters)")


def shown(name: bytes) -> str:
    """A name of a stream, group or consumer; different names stay different."""
    return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
