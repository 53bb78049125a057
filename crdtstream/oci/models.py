"""Bodies of the data plane, with the names and the optional fields of OCI's API; unknown fields are ignored.

Keys and values are base64 in the standard alphabet. A field that is None is left out of a reply, as the service does.
"""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError
from pydantic.alias_generators import to_camel

from crdtstream.oci.errors import OciError, invalid, missing, unparsable


class Body(BaseModel):
    """snake_case here, camelCase on the wire."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")

    def json_bytes(self) -> bytes:
        return self.model_dump_json(by_alias=True, exclude_none=True).encode()


class NewEntry(Body):
    """PutMessagesDetailsEntry"""

    value: str
    key: str | None = None


class PutMessagesDetails(Body):
    messages: list[NewEntry]


class PutEntry(Body):
    """PutMessagesResultEntry: stored with the first three fields, failed with the others."""

    partition: str | None = None
    offset: int | None = None
    timestamp: str | None = None
    error: str | None = None
    error_message: str | None = None


class PutMessagesResult(Body):
    failures: int
    entries: list[PutEntry]


class Message(Body):
    stream: str
    partition: str
    key: str | None
    value: str
    offset: int
    timestamp: str


class CreateCursorDetails(Body):
    partition: str
    type: str
    offset: int | None = None
    time: str | None = None


class CreateGroupCursorDetails(Body):
    type: str
    group_name: str
    time: str | None = None
    instance_name: str | None = None
    timeout_in_ms: int | None = None
    commit_on_get: bool | None = None


class UpdateGroupDetails(Body):
    type: str | None = None
    time: str | None = None


class CursorValue(Body):
    """Cursor"""

    value: str


class PartitionReservation(Body):
    partition: str
    committed_offset: int
    reserved_instance: str | None = None
    time_reserved_until: str | None = None


class Group(Body):
    stream_id: str
    group_name: str
    reservations: list[PartitionReservation]


MESSAGES = TypeAdapter(list[Message])

B = TypeVar("B", bound=Body)


def parsed(model: type[B], body: bytes) -> B:
    """Raises OciError, which names the first field that is wrong."""
    if not body.strip():
        raise missing(f"the request has no body: send a {model.__name__} as JSON")
    try:
        return model.model_validate_json(body)
    except ValidationError as error:
        raise complaint(error.errors(include_url=False, include_input=False)[0]) from error


def complaint(fault: Any) -> OciError:
    place = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "json_invalid":
        return unparsable(f"the body is not JSON: {fault['msg']}")
    if not place:
        return unparsable(f"the body must be a JSON object: {fault['msg']}")
    if fault["type"] == "missing":
        return missing(f"{place} is required: add it to the body")
    return invalid(f"{place}: {fault['msg']}")
