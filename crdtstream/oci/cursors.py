"""Cursors: where a client reads on, written down in a text that only this cluster can make.

A text is `<payload>.<seal>`, both base64 for URLs: the payload is JSON, the seal its HMAC-SHA256 under a secret of the
cluster that the payload names. Every region knows the secrets, so a cursor is good in all of them. It expires
`LIFETIME_MS` after it was issued. A next offset is the one to be read next; a bookmark holds last offsets read.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from crdtstream.oci.errors import invalid, unavailable
from crdtstream.partitions.epochs import Epoch
from crdtstream.partitions.values import Bookmark

LIFETIME_MS: Final = 5 * 60 * 1000
SEAL_BYTES: Final = hashlib.sha256().digest_size
GARBLED: Final = "the cursor is not one of this cluster's, or it was changed: create a new one"
UNREADY: Final = (
    "the cursor was made by a region that cannot be reached, and this region cannot check it yet: try again, or create"
    " a new one"
)
EXPIRED: Final = "the cursor has expired, 5 minutes after it was issued: create a new one"


@dataclass(frozen=True, slots=True)
class PartitionCursor:
    """Reads from `next_offset` on; while that is None, from the first message that is not before `time_ms`."""

    stream_id: str
    partition: int
    next_offset: int | None
    epoch: Epoch
    time_ms: int = 0


@dataclass(frozen=True, slots=True)
class GroupCursor:
    """`commit_read`: the bookmark holds what the previous GetMessages returned, and the next one commits it. `turn` is
    the partition at which the next read begins.
    """

    stream_id: str
    group: str
    instance: str
    timeout_ms: int
    commit_on_get: bool
    bookmark: Bookmark
    turn: int = 0
    commit_read: bool = False


Cursor = PartitionCursor | GroupCursor


def seal(cursor: Cursor, expires_ms: int, secret_id: str, secret: bytes) -> str:
    fields = partition_fields(cursor) if isinstance(cursor, PartitionCursor) else group_fields(cursor)
    whole = {**fields, "streamId": cursor.stream_id, "expiration": expires_ms, "secret": secret_id}
    payload = json.dumps(whole, separators=(",", ":")).encode()
    return f"{encoded(payload)}.{encoded(seal_of(payload, secret))}"


def unseal(text: str, secrets: Mapping[str, bytes], now_ms: int, misses_regions: Callable[[], bool] = bool) -> Cursor:
    """Raises OciError; an unsealed payload is ours, so its fields are not doubted. While a region is away, it may have
    made a secret that is not known here.
    """
    payload_text, _, seal_text = text.partition(".")
    try:
        payload, given = decoded(payload_text), decoded(seal_text)
        fields: dict[str, Any] = json.loads(payload)
        if fields["secret"] not in secrets and now_ms < fields["expiration"] and misses_regions():
            raise unavailable(UNREADY)
        secret = secrets[fields["secret"]]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise invalid(GARBLED) from error
    if len(given) != SEAL_BYTES or not hmac.compare_digest(seal_of(payload, secret), given):
        raise invalid(GARBLED)
    if now_ms >= fields["expiration"]:
        raise invalid(EXPIRED)
    return partition_cursor(fields) if fields["cursorType"] == "partition" else group_cursor(fields)


def partition_fields(cursor: PartitionCursor) -> dict[str, object]:
    return {
        "cursorType": "partition",
        "partition": cursor.partition,
        "offset": cursor.next_offset,
        "epoch": cursor.epoch,
        "time": cursor.time_ms,
    }


def partition_cursor(fields: dict[str, Any]) -> PartitionCursor:
    return PartitionCursor(
        fields["streamId"], fields["partition"], fields["offset"], pair_of(fields["epoch"]), fields["time"]
    )


def group_fields(cursor: GroupCursor) -> dict[str, object]:
    return {
        "cursorType": "group",
        "groupName": cursor.group,
        "instanceName": cursor.instance,
        "timeoutInMs": cursor.timeout_ms,
        "commitOnGet": cursor.commit_on_get,
        "generation": cursor.bookmark.generation,
        "epoch": cursor.bookmark.epoch,
        "start": cursor.bookmark.start,
        "offsets": cursor.bookmark.offsets,
        "turn": cursor.turn,
        "commitRead": cursor.commit_read,
    }


def group_cursor(fields: dict[str, Any]) -> GroupCursor:
    offsets = {int(partition): offset for partition, offset in fields["offsets"].items()}
    return GroupCursor(
        fields["streamId"],
        fields["groupName"],
        fields["instanceName"],
        fields["timeoutInMs"],
        fields["commitOnGet"],
        Bookmark(fields["generation"], pair_of(fields["epoch"]), pair_of(fields["start"]), offsets),
        fields["turn"],
        fields["commitRead"],
    )


def pair_of(value: list[int]) -> tuple[int, int]:
    """An epoch or the name of a start."""
    first, second = value
    return first, second


def seal_of(payload: bytes, secret: bytes) -> bytes:
    return hmac.digest(secret, payload, "sha256")


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
