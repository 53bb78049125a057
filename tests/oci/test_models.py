"""Bodies: names on the wire, what is left out, and complaints about what is wrong."""

from __future__ import annotations

import pytest

from crdtstream.oci.errors import OciError
from crdtstream.oci.models import (
    CreateGroupCursorDetails,
    PartitionReservation,
    PutEntry,
    PutMessagesDetails,
    parsed,
)


def test_names_are_those_of_the_wire() -> None:
    body = b'{"type":"LATEST","groupName":"g","timeoutInMs":5,"commitOnGet":false,"colour":"red"}'
    details = parsed(CreateGroupCursorDetails, body)
    assert (details.group_name, details.timeout_in_ms, details.commit_on_get, details.instance_name) == (
        "g",
        5,
        False,
        None,
    )


def test_absent_fields_are_left_out() -> None:
    assert PartitionReservation(partition="0", committed_offset=-1).json_bytes() == (
        b'{"partition":"0","committedOffset":-1}'
    )
    assert PutEntry(error="e", error_message="m").json_bytes() == b'{"error":"e","errorMessage":"m"}'


@pytest.mark.parametrize(
    ("body", "code", "text"),
    [
        (b"", "MissingParameter", "the request has no body: send a PutMessagesDetails as JSON"),
        (b"{", "CannotParseRequest", "the body is not JSON"),
        (b"[]", "CannotParseRequest", "the body must be a JSON object"),
        (b"\xff", "CannotParseRequest", "the body is not JSON"),
        (b"{}", "MissingParameter", "messages is required: add it to the body"),
        (b'{"messages":[{"key":"a"}]}', "MissingParameter", "messages.0.value is required"),
        (b'{"messages":7}', "InvalidParameter", "messages: "),
        (b'{"messages":[{"value":7}]}', "InvalidParameter", "messages.0.value: "),
    ],
)
def test_complaints(body: bytes, code: str, text: str) -> None:
    with pytest.raises(OciError) as refusal:
        parsed(PutMessagesDetails, body)
    assert (refusal.value.status, refusal.value.code) == (400, code)
    assert refusal.value.message.startswith(text)
