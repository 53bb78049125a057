"""Times as the API writes them: RFC 3339 in UTC with milliseconds; inside they are milliseconds since 1970."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from crdtstream.oci.errors import invalid

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MILLISECOND: Final = timedelta(milliseconds=1)


def rfc3339(time_ms: int) -> str:
    return (EPOCH + time_ms * MILLISECOND).isoformat(timespec="milliseconds")[:23] + "Z"


def milliseconds(text: str, name: str) -> int:
    """A time without an offset is in UTC; one before 1970 is 1970. Raises OciError."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError as error:
        raise invalid(f"{name} {text!r} is not a time: write it like 2026-11-20T22:22:50.000Z") from error
    return max(0, ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // MILLISECOND)
