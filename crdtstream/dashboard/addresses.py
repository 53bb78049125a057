"""The addresses of the pages. Names of streams and groups are bytes, percent-encoded. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, unquote_to_bytes


def url(path: str, **parameters: bytes | str | int | None) -> str:
    """`/stream?key=orders`; a parameter that is None is left out."""
    told = [
        f"{name}={quote(value if isinstance(value, bytes) else str(value), safe='')}"
        for name, value in parameters.items()
        if value is not None
    ]
    return f"{path}?{'&'.join(told)}" if told else path


def parameters_of(query: bytes) -> dict[str, bytes]:
    """The parameters of a query string; of several with one name the last."""
    found: dict[str, bytes] = {}
    for part in query.split(b"&"):
        name, equals, value = part.partition(b"=")
        if equals:
            found[name.decode("ascii", "replace")] = unquote_to_bytes(value.replace(b"+", b" "))
    return found


def text_in(parameters: Mapping[str, bytes], name: str, missing: str = "") -> str:
    return parameters.get(name, missing.encode()).decode("utf-8", "replace")


def number_in(parameters: Mapping[str, bytes], name: str, missing: int) -> int:
    value = parameters.get(name, b"")
    return int(value) if value.isdigit() and len(value) < 10 else missing
