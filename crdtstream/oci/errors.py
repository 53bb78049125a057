"""Errors of the API: a status, a code, and a text that says what is wrong and what to do.

The SDK repeats a request after 429, 5xx, and 409 with IncorrectState; so no other error uses those. Reference: the
table of API errors in OCI's documentation.
"""

from __future__ import annotations

from typing import Final

from crdtstream.partitions import values

NOT_FOUND_CODE: Final = "NotAuthorizedOrNotFound"
UNAVAILABLE_CODE: Final = "ServiceUnavailable"
TOO_MANY_CODE: Final = "TooManyRequests"
INVALID_CODE: Final = "InvalidParameter"
LIMIT_CODE: Final = "LimitExceeded"


class OciError(Exception):
    """A request that is answered with an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


def invalid(message: str) -> OciError:
    return OciError(400, INVALID_CODE, message)


def missing(message: str) -> OciError:
    return OciError(400, "MissingParameter", message)


def unparsable(message: str) -> OciError:
    return OciError(400, "CannotParseRequest", message)


def limit_exceeded(message: str) -> OciError:
    return OciError(400, LIMIT_CODE, message)


def not_authenticated(reason: str) -> OciError:
    text = "The required information to complete authentication was not provided or was incorrect"
    return OciError(401, "NotAuthenticated", f"{text}: {reason}")


def unknown(what: str, id: str) -> OciError:
    return OciError(404, NOT_FOUND_CODE, f"Unknown {what} {id}.")


def conflict(message: str) -> OciError:
    return OciError(409, "Conflict", message)


def no_etag_match(etag: str) -> OciError:
    return OciError(412, "NoEtagMatch", f"the ETag is {etag!r} now: get the resource again and repeat the request")


def too_many(message: str) -> OciError:
    return OciError(429, TOO_MANY_CODE, message)


def unavailable(message: str) -> OciError:
    """The SDK tries again."""
    return OciError(503, UNAVAILABLE_CODE, message)


def internal(kind: str) -> OciError:
    return OciError(500, "InternalServerError", f"internal error: {kind}; see the log of this region")


CODES: Final = {
    values.UNKNOWN_STREAM: (404, NOT_FOUND_CODE),
    values.UNKNOWN_GROUP: (404, NOT_FOUND_CODE),
    values.INVALID: (400, INVALID_CODE),
    values.LIMIT: (400, LIMIT_CODE),
}


def error_of(refusal: values.Refused) -> OciError:
    """What the region refused, as the client is told; what may succeed later is 503, so that the SDK tries again."""
    status, code = CODES.get(refusal.code, (503, UNAVAILABLE_CODE))
    return OciError(status, code, refusal.text)
