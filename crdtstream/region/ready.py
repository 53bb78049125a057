"""What a turn of the node leaves to the runtime."""

from __future__ import annotations

from crdtstream.connections.outputs import Replies
from crdtstream.protocols.log_port import NewRecord

Messages = list[tuple[bytes, bytes]]


class Ready:
    """What the runtime must do, in this order: append `records`, send `replies`, close the connections in `closing`.
    If `urgent`, a region waits for these records to be durable, so sync at once, whatever the policy. What was
    `published` here (channel, message) goes to the other shards of this region; none in a region of one shard.
    """

    __slots__ = ("closing", "published", "records", "replies", "urgent")

    def __init__(
        self,
        records: list[NewRecord],
        replies: Replies,
        closing: list[int],
        urgent: bool = False,
        published: Messages | None = None,
    ) -> None:
        self.records = records
        self.replies = replies
        self.closing = closing
        self.urgent = urgent
        self.published: Messages = published or []
