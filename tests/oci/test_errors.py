"""What the region refuses, in the API's words."""

from __future__ import annotations

import pytest

from crdtstream.oci.errors import error_of, no_etag_match, not_authenticated
from crdtstream.partitions import values
from crdtstream.partitions.values import Refused


@pytest.mark.parametrize(
    ("code", "status", "word"),
    [
        (values.UNKNOWN_STREAM, 404, "NotAuthorizedOrNotFound"),
        (values.UNKNOWN_GROUP, 404, "NotAuthorizedOrNotFound"),
        (values.INVALID, 400, "InvalidParameter"),
        (values.LIMIT, 400, "LimitExceeded"),
        (values.UNREACHABLE, 503, "ServiceUnavailable"),
        (values.MOVED, 503, "ServiceUnavailable"),
        (values.UNWRITABLE, 503, "ServiceUnavailable"),
    ],
)
def test_refusals(code: str, status: int, word: str) -> None:
    error = error_of(Refused(code, "why"))
    assert (error.status, error.code, error.message) == (status, word, "why")


def test_what_may_succeed_later_is_what_the_sdk_repeats() -> None:
    assert all(error_of(Refused(code, "")).status == 503 for code in values.RETRYABLE)


def test_texts_say_what_to_do() -> None:
    assert no_etag_match("e").message == "the ETag is 'e' now: get the resource again and repeat the request"
    assert not_authenticated("why").message.endswith("or was incorrect: why")
