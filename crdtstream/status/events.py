"""The events of the log: the name of each, its level, what it says, and its fields.

A name never changes with what happened, so that rules can be written for it; what differs is in the fields. Whatever
logs names one of these; a test finds every call. docs/events.md is made from this table.

`Notice` is an event of the pure layers, which log nothing themselves: the runtime does it for them.
"""

from __future__ import annotations

DEBUG = "debug"
INFO = "info"
WARNING = "warning"
ERROR = "error"
# The level of what was logged by a library, which chose one.
AS_GIVEN = "as given"
LEVELS = (DEBUG, INFO, WARNING, ERROR)

LINK_FIELDS = ("peer", "peer_name", "address", "side")
TRAFFIC_FIELDS = ("silent_ms", "write_ms", "message_bytes")


class Event:
    """One kind of event; `fields` come besides those that every event has."""

    __slots__ = ("fields", "level", "meaning", "name")

    def __init__(self, name: str, level: str, meaning: str, *fields: str) -> None:
        self.name = name
        self.level = level
        self.meaning = meaning
        self.fields = fields


class Notice:
    """An event with a text for people, which names what it is about, and the exception behind it, if any."""

    __slots__ = ("error", "event", "text")

    def __init__(self, event: str, text: str, error: Exception | None = None) -> None:
        self.event = event
        self.text = text
        self.error = error

    def __repr__(self) -> str:
        return f"Notice({self.event!r}, {self.text!r}, {self.error!r})"


START = (
    Event("disk-read", INFO, "Checkpoint and log are read.", "checkpoint", "records", "seconds"),
    Event(
        "listening",
        INFO,
        "The ports are open; clients get `-LOADING`.",
        "redis",
        "redis_tls",
        "replication",
        "bulk",
        "oci",
        "http",
    ),
    Event("founded", INFO, "The regions of a new cluster have met.", "origin"),
    Event("admitted", INFO, "Another region has admitted this one: it creates groups.", "origin", "by"),
    Event(
        "evicted",
        WARNING,
        "The origin of this region was evicted; the region continues as another.",
        "origin",
        "goes_on_as",
    ),
    Event("waiting", INFO, "Clients get `-LOADING` for this reason.", "detail"),
    Event(
        "region-number-shared",
        WARNING,
        "Two live processes use the same region number. Repeated once a minute.",
        "detail",
    ),
    Event("ready", INFO, "This origin may serve.", "origin"),
    Event("leave", INFO, "This region leaves the cluster, or stays after all.", "detail"),
    Event("serving", INFO, "Clients are served.", "redis", "redis_tls", "replication", "bulk", "oci", "http"),
    Event("settings-reloaded", INFO, "The settings file was read again, and its changes are applied.", "changed"),
    Event(
        "settings-need-restart",
        WARNING,
        "These settings have changed in the file, and take effect at the next start.",
        "settings",
    ),
    Event("settings-not-reloaded", ERROR, "The settings file cannot be used; nothing changes.", "reason"),
    Event("clients-limited", WARNING, "The limit of open files allows fewer clients.", "files", "clients_max"),
)
SHARDS = (
    Event("shard-map-written", INFO, "The supervisor has written where the shards are reached.", "epoch", "shards"),
    Event("shard-map-read", INFO, "This shard goes by a newer map of the shards.", "epoch"),
    Event(
        "shard-handed-over",
        INFO,
        "A shard that moves has stopped; its directory is for the process at the new address.",
        "address",
        "record",
    ),
    Event(
        "clients-redirected",
        INFO,
        "A shard that has moved sends its clients to the new address; they were held for so long. `answers` says"
        " whether the shard serves there.",
        "address",
        "answers",
        "seconds",
    ),
    Event("shard-started", INFO, "The supervisor has started the process of a shard.", "shard", "process"),
    Event(
        "shard-moves-late",
        WARNING,
        "A shard that is to run elsewhere has not handed its directory over: the supervisor starts it, and it moves.",
        "shard",
        "address",
    ),
    Event("shards-serving", INFO, "All shards of this machine serve clients.", "shards"),
    Event("shard-left", INFO, "A shard has left the cluster, and is not started again.", "shard"),
    Event("shard-stopped", INFO, "A shard has ended as it was asked to; `SIGHUP` starts it again.", "shard"),
    Event(
        "shard-failed",
        ERROR,
        "The process of a shard has ended by itself; it is started again.",
        "shard",
        "reason",
        "restart_s",
    ),
    Event(
        "shard-unreachable",
        WARNING,
        "What clients published does not reach another shard of this region. Repeated at most once a minute.",
        "number",
        "reason",
        "dropped",
        "repeated",
    ),
    Event("shards-stopping", INFO, "The supervisor stops all shards of this machine."),
)
LINKS = (
    Event("link-opened", INFO, "A peer is linked.", *LINK_FIELDS),
    Event(
        "link-lost",
        INFO,
        "The link with a peer ended. Nothing had arrived for `silent_ms` then, and a message had been in writing for"
        " `write_ms`.",
        "reason",
        *LINK_FIELDS,
        *TRAFFIC_FIELDS,
    ),
    Event("link-ended", DEBUG, "A stream ended before it was a link.", "reason", *LINK_FIELDS),
    Event(
        "link-closed",
        WARNING,
        "One side refused or could not read the other. Repeated at most once a minute.",
        "reason",
        "repeated",
        *LINK_FIELDS,
        *TRAFFIC_FIELDS,
    ),
    Event(
        "link-refused",
        WARNING,
        "A region that dialled or answered is refused. Repeated at most once a minute.",
        "reason",
        "repeated",
        "address",
        "side",
    ),
    Event("dial-failed", DEBUG, "A peer did not answer; it is dialled again.", "reason", "address"),
    Event(
        "peer-unreachable",
        WARNING,
        "A peer has not answered for `peer_timeout_ms`. Repeated at most once a minute.",
        "reason",
        "repeated",
        "address",
    ),
    Event(
        "peers-changed",
        INFO,
        "The addresses that the region dials have changed: its peers, or what other regions announce.",
        "added",
        "removed",
    ),
    Event("batches-wait", WARNING, "This region lacks room: batches of its peers wait.", "detail"),
    Event("batches-taken", INFO, "There is room again: batches of peers are applied.", "detail"),
    Event("peer-lacks-room", WARNING, "A peer lacks room: batches for it wait.", "detail"),
    Event("peer-has-room", INFO, "The peer has room again: it accepts batches.", "detail"),
    Event("state-transfer-sent", INFO, "A peer receives the whole state of this region.", "detail"),
    Event(
        "progress-dropped",
        WARNING,
        "A peer sends more progress of members than is kept. Repeated once a minute.",
        "detail",
    ),
    Event("state-transfer-begun", INFO, "This region receives the whole state of a peer.", "detail"),
    Event("state-transfer-joined", INFO, "The state of a peer was joined.", "detail"),
    Event("state-transfer-abandoned", INFO, "The state of a peer was not joined.", "detail"),
)
STATE = (
    Event("state-differs", ERROR, "The audit found two regions with different state.", "detail"),
    Event("difference-not-located", WARNING, "The audit could not tell what differs.", "detail"),
    Event("origin-shared", ERROR, "Another process makes effects as this origin.", "detail"),
    Event("start-over-begun", INFO, "This region replaces its state with that of another.", "detail"),
    Event("start-over-done", INFO, "This region has the state of the other one.", "detail"),
    Event("start-over-failed", WARNING, "This region keeps its state.", "detail"),
)
DISK = (
    Event("checkpoint-taken", INFO, "A checkpoint is on disk.", "seconds", "log_from"),
    Event("checkpoint-failed", ERROR, "A checkpoint failed; it is tried again.", "reason"),
    Event("backup-taken", INFO, "A backup is complete.", "directory", "bytes", "position"),
    Event("backup-failed", ERROR, "A backup failed.", "directory", "reason"),
    Event(
        "disk-full",
        WARNING,
        "Writes are refused until there is space; reads work, and so does what frees space.",
        "data",
        "needed_bytes",
        "free_bytes",
        "log_bytes",
        "remedy",
    ),
    Event(
        "log-yielded",
        WARNING,
        "The disk is full: peers that are away take a whole state instead of the log that was kept for them.",
        "log_from",
    ),
    Event("disk-has-space", INFO, "Writes are accepted again.", "data"),
    Event("release-unwritten", WARNING, "The file that names the release in use was not written.", "reason"),
    Event(
        "block-unreadable",
        ERROR,
        "A block that is on disk alone cannot be read: what needs it waits, and checkpoints may.",
        "detail",
    ),
    Event(
        "log-damaged",
        ERROR,
        "A part of the log cannot be read; peers that need it take a whole state.",
        "file",
        "offset",
        "record",
        "through",
        "reason",
    ),
)
CLIENTS = (
    Event("client-closed", WARNING, "A client exceeded a limit.", "detail", "client", "address", "unread_bytes"),
    Event("http-client", WARNING, "A client sent HTTP to the Redis port. At most once a minute.", "detail"),
    Event("wrong-password", WARNING, "A client sent a wrong password. At most once a minute.", "detail"),
    Event("command-failed", ERROR, "A command had a fault of the program; nothing changed.", "detail"),
    Event("tls-client-refused", WARNING, "The TLS handshake of a client failed. At most once a minute.", "detail"),
    Event("tls-peer-refused", WARNING, "The TLS handshake on a gRPC port failed. At most once a minute.", "reason"),
    Event("certificate-reloaded", INFO, "Files of a certificate changed and are used.", "certificate"),
    Event("certificate-not-reloaded", ERROR, "Changed files cannot be used; the previous ones stay in use.", "reason"),
    Event(
        "service-manager-not-told",
        WARNING,
        "The socket of NOTIFY_SOCKET did not take a message.",
        "told",
        "reason",
    ),
    Event("acl-file-failed", WARNING, "The file with users was not written or read.", "what", "file", "reason"),
    Event("oci-development-mode", WARNING, "The OCI gateway accepts any signature.", "detail"),
    Event("oci-keys-read", INFO, "The keys file of the OCI gateway was read again.", "file", "keys"),
    Event("oci-keys-unusable", ERROR, "The changed keys file cannot be used; the previous keys stay in use.", "reason"),
    Event("oci-stream-created", INFO, "A stream of `--init-streams` was created.", "stream", "id", "state"),
    Event("oci-stream-failed", ERROR, "A stream of `--init-streams` was not created.", "stream", "reason"),
    Event("oci-call-failed", ERROR, "A call of the OCI gateway had a fault of the program.", "operation"),
    Event("bulk-call-failed", ERROR, "A bulk call had a fault of the program."),
    Event("http-request-failed", ERROR, "A request to the HTTP port had a fault of the program.", "path"),
)
END = (
    Event("stop-checkpoint", INFO, "A checkpoint is taken before the stop.", "stop_checkpoint_ms_max"),
    Event(
        "stop-checkpoint-skipped", WARNING, "The stop no longer waits for that checkpoint.", "stop_checkpoint_ms_max"
    ),
    Event("handed-over", INFO, "The linked peers have everything of this region.", "seconds"),
    Event(
        "handover-incomplete",
        WARNING,
        "The stop no longer waits for a peer to receive what it lacks.",
        "peer",
        "peer_region",
        "effects",
    ),
    Event("stopping", INFO, "The checkpoint is taken, and the region stops.", "seconds"),
    Event("stop-unclean", ERROR, "The log did not accept the mark of a clean stop.", "reason"),
    Event("records-lost", ERROR, "The disk was full: records that no client had been told of are lost.", "records"),
    Event("region-failed", ERROR, "The region cannot go on.", "reason"),
    Event("exit", ERROR, "The process ends, or never served.", "reason", "code"),
)
OTHERS = (
    Event("traces-off", WARNING, "Variables of OpenTelemetry ask for traces, and it is not installed.", "reason"),
    Event("library-message", AS_GIVEN, "What a Python library logged or warned of.", "logger", "detail", "repeated"),
    Event("native-message", WARNING, "What a C library wrote, gRPC for one.", "detail", "repeated"),
    Event("uncaught", ERROR, "An exception that nothing handled.", "detail"),
)
GROUPS: tuple[tuple[str, tuple[Event, ...]], ...] = (
    ("Start", START),
    ("Shards", SHARDS),
    ("Links", LINKS),
    ("State", STATE),
    ("Disk", DISK),
    ("Clients", CLIENTS),
    ("End", END),
    ("Others", OTHERS),
)
EVENTS: dict[str, Event] = {event.name: event for _, events in GROUPS for event in events}
