"""One call of the API: what its handler asks of the request, and what it answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crdtstream.oci.errors import invalid, missing
from crdtstream.oci.models import B, parsed

if TYPE_CHECKING:
    from pydantic import BaseModel


@dataclass(frozen=True, slots=True)
class Call:
    """A request whose signature was accepted; header names are in lower case. `url` is how the client reached us."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes
    url: str

    def parsed(self, model: type[B]) -> B:
        return parsed(model, self.body)

    def asked(self, name: str) -> str:
        """A required parameter of the query; raises OciError."""
        value = self.query.get(name, "")
        if not value:
            raise missing(f"the query parameter {name} is required")
        return value

    def number(self, name: str, default: int, most: int) -> int:
        """A parameter of the query from 1 to `most`; raises OciError."""
        text = self.query.get(name)
        if text is None:
            return default
        if not (text.isascii() and text.isdigit() and len(text) < 10 and 1 <= int(text) <= most):
            raise invalid(f"{name} {text!r} must be a whole number from 1 to {most}")
        return int(text)

    def choice(self, name: str, default: str, *known: str) -> str:
        value = self.query.get(name, default).upper()
        if value not in known:
            raise invalid(f"{name} {value!r} must be one of {', '.join(known)}")
        return value


@dataclass(frozen=True, slots=True)
class GatewayReply:
    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def json_reply(value: object) -> GatewayReply:
    return GatewayReply(json.dumps(value, separators=(",", ":")).encode())


def model_reply(model: BaseModel, **headers: str) -> GatewayReply:
    """Without the fields that are None; underscores of header names become hyphens."""
    body = model.model_dump_json(by_alias=True, exclude_none=True).encode()
    return GatewayReply(body, headers={name.replace("_", "-"): value for name, value in headers.items()})


NO_CONTENT = 204
