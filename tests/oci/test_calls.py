"""What a handler asks of a request."""

from __future__ import annotations

import pytest

from crdtstream.oci.calls import Call, json_reply, model_reply
from crdtstream.oci.errors import OciError
from crdtstream.oci.models import PutEntry


def call(**query: str) -> Call:
    return Call({}, query, {}, b"", "")


def test_numbers() -> None:
    assert call().number("limit", 10, 50) == 10
    assert call(limit="1").number("limit", 10, 50) == 1
    assert call(limit="50").number("limit", 10, 50) == 50


@pytest.mark.parametrize("text", ["0", "51", "-1", "x", "", "1.5", "²", "9" * 30])
def test_what_is_no_such_number(text: str) -> None:
    with pytest.raises(OciError, match="must be a whole number from 1 to 50"):
        call(limit=text).number("limit", 10, 50)


def test_choices() -> None:
    assert call().choice("sortBy", "NAME", "NAME", "TIMECREATED") == "NAME"
    assert call(sortBy="timeCreated").choice("sortBy", "NAME", "NAME", "TIMECREATED") == "TIMECREATED"
    with pytest.raises(OciError, match="sortBy 'SIZE' must be one of NAME, TIMECREATED"):
        call(sortBy="size").choice("sortBy", "NAME", "NAME", "TIMECREATED")


def test_required() -> None:
    assert call(cursor="c").asked("cursor") == "c"
    for empty in (call(), call(cursor="")):
        with pytest.raises(OciError, match="the query parameter cursor is required") as refusal:
            empty.asked("cursor")
        assert refusal.value.code == "MissingParameter"


def test_replies() -> None:
    assert json_reply([1]).body == b"[1]"
    reply = model_reply(PutEntry(partition="0"), etag="e", opc_work_request_id="w")
    assert (reply.status, reply.body) == (200, b'{"partition":"0"}')
    assert reply.headers == {"etag": "e", "opc-work-request-id": "w"}
