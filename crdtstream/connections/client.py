"""One connection to the Redis port, as its commands see it."""

from __future__ import annotations

from collections import deque
from typing import Final

from crdtstream.connections.acl.user import User
from crdtstream.connections.command import Command
from crdtstream.connections.transaction import Transaction
from crdtstream.core.effects import Key

REPLIES_ON: Final = 0
REPLIES_OFF: Final = 1
REPLIES_SKIP_NEXT: Final = 2
# What a request in a backlog takes besides its arguments.
REQUEST_BYTES: Final = 64

Topics = dict[bytes, None]


class Client:
    """One connection to the Redis port. While the client waits, `request` is the request it waits in, of `command`,
    which has run for `took_ns` so far.

    `user` is whose rights it has, the default user's before it has authenticated. `unrestricted` is true if it may do
    everything, so that no request has to be checked (access.py keeps it up to date).

    `backlog` holds the requests received after that one, or beyond the client's share of the turn. `farewell` is the
    last reply (empty: none); once it is set, the connection closes as soon as the backlog is done.

    `topics` are the channels, patterns and shard channels that it listens to (subscriptions.py). `encrypted` is true if
    it came to the TLS port, so that it is sent to the TLS ports of other shards.
    """

    __slots__ = (
        "address",
        "authenticated",
        "backlog",
        "backlog_bytes",
        "closing",
        "command",
        "connected_ms",
        "database",
        "dropped",
        "encrypted",
        "farewell",
        "id",
        "last_command",
        "last_ms",
        "lib_name",
        "lib_version",
        "local_address",
        "monitoring",
        "name",
        "no_evict",
        "no_touch",
        "parked",
        "protocol",
        "refusal",
        "reply_mode",
        "request",
        "subscribed",
        "took_ns",
        "topics",
        "transaction",
        "unrestricted",
        "user",
        "watch_failed",
        "watched",
        "written_counter",
    )

    def __init__(self, client_id: int, address: str, now_ms: int, user: User) -> None:
        self.id = client_id
        self.address = address
        self.local_address = ""
        self.connected_ms = now_ms
        self.last_ms = now_ms
        self.user = user
        self.authenticated = user.nopass and user.enabled
        self.unrestricted = self.authenticated and user.unrestricted
        self.database = 0
        self.protocol = 2
        self.name = b""
        self.lib_name = b""
        self.lib_version = b""
        self.last_command = ""
        self.reply_mode = REPLIES_ON
        self.no_evict = False
        self.no_touch = False
        self.parked = False
        self.request: list[bytes] = []
        self.command: Command | None = None
        self.took_ns = 0
        self.closing = False
        self.dropped = False
        self.encrypted = False
        self.written_counter = 0
        self.transaction: Transaction | None = None
        self.watched: dict[Key, bool] = {}
        self.watch_failed = False
        self.topics: tuple[Topics, Topics, Topics] = ({}, {}, {})
        self.subscribed = False
        self.monitoring = False
        self.backlog: deque[list[bytes]] = deque()
        self.backlog_bytes = 0
        self.farewell: bytes | None = None

    def local_host(self) -> str:
        """The host at which the client reached this region."""
        return self.local_address.rpartition(":")[0].strip("[]")

    def put_back(self, argv: list[bytes]) -> None:
        """Let this request wait before all others of the backlog."""
        self.backlog.appendleft(argv)
        self.backlog_bytes += size_of(argv)


def size_of(argv: list[bytes]) -> int:
    """What a request counts for in a backlog."""
    return sum(map(len, argv)) + REQUEST_BYTES
