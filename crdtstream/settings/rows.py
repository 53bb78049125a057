"""What is said of each setting: the rows of the table of settings (table.py), in groups.

Every field of `Config` and of `Limits` has exactly one row, and the field has the type and the default.
"""

from __future__ import annotations

from dataclasses import dataclass

from crdtstream.core.values.entry_id import ID_MODES
from crdtstream.settings.config import FSYNC_POLICIES, LOG_FORMATS, LOG_LEVELS, OCI_LIMITS, TLS_CLIENTS

# When a change takes effect.
AT_ONCE = "at once"
NEW_CONNECTIONS = "for new connections"
ON_RELOAD = "on SIGHUP"
AT_START = "at a start"


@dataclass(frozen=True, slots=True)
class SettingRow:
    """What a field of `Config` or `Limits` does not say itself; `flag` is the name of its flag if it has another."""

    field: str
    meaning: str
    change: str = AT_START
    unit: str = ""
    flag: str = ""
    choices: tuple[str, ...] = ()
    secret: bool = False
    # For the sample file, where there is no default.
    example: str = ""


Groups = tuple[tuple[str, tuple[SettingRow, ...]], ...]
row = SettingRow
REGION_GROUPS: Groups = (
    (
        "Region",
        (
            row("name", "Name of the region, for people.", unit="word", example="east"),
            row("region", "Number of the region, unique in the cluster.", unit="1..255", example="1"),
            row("cluster", "Name of the cluster, the same in all regions.", unit="text", example="shop"),
            row("data", "Data directory.", unit="directory"),
            row(
                "backup_directory",
                "Directory below which backups may be written; none unless given.",
                unit="directory",
            ),
            row("fsync", "When the log is synced to the disk.", choices=FSYNC_POLICIES),
            row("id_mode", "How IDs are made; the same in all regions.", choices=ID_MODES),
            row(
                "incarnation",
                "Any number: serve from a new data directory without waiting for peers.",
                unit="0..255",
                example="0",
            ),
            row(
                "replace",
                "No other process of this region runs, or none of these of its shards, as `0-1`: take over now.",
                unit="SHARDS",
            ),
        ),
    ),
    (
        "Shards",
        (
            row(
                "shards",
                "Processes of each region, which share its keys as Redis Cluster does; the same in all regions, and for"
                " as long as the cluster lives.",
                unit="1..1000",
            ),
            row(
                "shard", "Those of them that run here, as `0-3`, or `none`; all unless given.", ON_RELOAD, unit="SHARDS"
            ),
            row(
                "announce",
                "Where shards that run elsewhere are reached: the Redis port of shard k is `PORT` + k.",
                ON_RELOAD,
                unit="SHARDS=HOST:PORT",
            ),
        ),
    ),
    (
        "Redis port",
        (
            row("bind", "Address of the Redis port.", unit="address"),
            row("port", "Redis port; 0 selects a free one, or none if there is a TLS port.", unit="port"),
            row("requirepass", "Password of the user `default`; empty for none.", AT_ONCE, "text", secret=True),
            row("requirepass_file", "File that contains the password, one line.", unit="file"),
            row("aclfile", "File with users, read at the start, and by ACL LOAD and ACL SAVE.", unit="file"),
            row(
                "protected_mode",
                "Reject clients from beyond loopback while no password is set.",
                AT_ONCE,
                "switch",
            ),
            row(
                "notify_keyspace_events",
                "Events that clients may subscribe to, in Redis's letters.",
                AT_ONCE,
                "letters",
            ),
        ),
    ),
    (
        "TLS for clients",
        (
            row("tls_port", "Redis port with TLS; off unless given.", unit="port"),
            row("tls_auth_clients", "Whether clients of TLS ports need a certificate.", choices=TLS_CLIENTS),
            row(
                "tls_cert_file",
                "Certificate of the TLS ports for clients, if not that of replication (PEM).",
                unit="file",
            ),
            row("tls_key_file", "Its private key (PEM).", unit="file"),
            row(
                "tls_ca_cert_file",
                "Authority of the certificates of clients, if not that of replication (PEM).",
                unit="file",
            ),
        ),
    ),
    (
        "Other regions",
        (
            row("peers", "Replication address of another region.", AT_ONCE, "HOST:PORT", flag="peer"),
            row(
                "announce_host",
                "Host at which others reach this region's ports, if not at the addresses that these are bound to.",
                unit="host",
            ),
            row(
                "discover_peers",
                "Also dial regions that are no peers, at the replication addresses that they announce.",
                AT_ONCE,
                "switch",
            ),
            row("replication_bind", "Address of the replication port.", unit="address"),
            row("replication_port", "gRPC port that the other regions dial.", unit="port"),
            row("tls_certificate", "Certificate of this node (PEM).", unit="file"),
            row("tls_key", "Its private key (PEM).", unit="file"),
            row("tls_authority", "Authority that signs all certificates (PEM).", unit="file"),
            row("insecure_replication", "Replicate without TLS beyond loopback.", unit="switch"),
            row(
                "allowed_regions",
                "Region that may connect without being a peer.",
                unit="1..255",
                flag="allow-region",
            ),
            row(
                "replication_secret_file",
                "File that contains the secret shared by all regions, one line.",
                unit="file",
            ),
        ),
    ),
    (
        "Bulk and HTTP ports",
        (
            row("bulk_bind", "Address of the bulk port.", unit="address"),
            row(
                "bulk_port",
                "gRPC port for moving many entries; off unless given, 0 selects a free one.",
                unit="port",
                example="7201",
            ),
            row("bulk_tls", "TLS on the bulk port, as on the TLS port.", unit="switch"),
            row("http_bind", "Address of the HTTP port.", unit="address"),
            row(
                "http_port",
                "HTTP port for metrics and health; off unless given, 0 selects a free one.",
                unit="port",
                example="9121",
            ),
            row("http_tls", "TLS on the HTTP port; its clients show no certificate.", unit="switch"),
            row("http_token", "Token that /metrics asks for; empty for none.", unit="text", secret=True),
            row("http_token_file", "File that contains the token, one line.", unit="file"),
            row("insecure_http", "Serve metrics without TLS or a token beyond loopback.", unit="switch"),
            row(
                "dashboard_url",
                "Address of a dashboard, to which `/` of the HTTP port links.",
                unit="text",
                example="http://127.0.0.1:8080/",
            ),
        ),
    ),
    (
        "OCI Streaming",
        (
            row("oci_bind", "Address of the port for clients of OCI Streaming.", unit="address"),
            row(
                "oci_port",
                "HTTP port for clients of OCI Streaming; off unless given, 0 selects a free one.",
                unit="port",
                example="7301",
            ),
            row(
                "oci_keys",
                "TOML file with public keys of users; without it any signature is accepted.",
                unit="file",
            ),
            row("oci_limits", "The limits of OCI's service, or none.", choices=OCI_LIMITS),
            row("oci_tls", "TLS on this port; its clients show no certificate, because they sign.", unit="switch"),
            row("insecure_oci", "Serve this port without TLS beyond loopback.", unit="switch"),
            row("oci_dev", "Serve /dev/clock and /dev/faults for tests.", unit="switch"),
            row(
                "init_streams",
                "Streams for clients of OCI that a start creates, with commas between them.",
                unit="NAME:PARTITIONS",
            ),
        ),
    ),
    (
        "Log of events",
        (
            row("log_level", "Which events are logged.", AT_ONCE, choices=LOG_LEVELS),
            row("log_format", "How events are logged; console is for people.", choices=LOG_FORMATS),
        ),
    ),
    (
        "Traces",
        (
            row(
                "otel_endpoint",
                "OTLP collector that spans are sent to; none are made unless it is given.",
                unit="URL",
                example="http://127.0.0.1:4318",
            ),
        ),
    ),
)
LIMIT_GROUPS: Groups = (
    (
        "Clients",
        (
            row("clients_max", "Clients at once. Lowered to what the number of open files allows.", AT_ONCE),
            row("client_idle_s_max", "A client that is idle for so long is closed; 0 for never.", AT_ONCE),
            row("blocked_clients_max", "Clients that wait in blocking commands at once.", AT_ONCE),
            row("query_bytes_max", "Bytes that a client may send of requests that are not complete.", NEW_CONNECTIONS),
            row("bulk_bytes_max", "Bytes of one argument.", NEW_CONNECTIONS),
            row("arguments_max", "Arguments of one request.", NEW_CONNECTIONS),
            row("entry_bytes_max", "Bytes of one entry.", AT_ONCE),
            row(
                "write_bytes_max",
                "Bytes that are written as one: an entry and its names, a transaction, a stream that is copied or"
                " renamed. All others wait meanwhile.",
            ),
            row(
                "output_bytes_max",
                "Bytes of replies that one client has not read; beyond it the client is closed.",
                AT_ONCE,
            ),
            row(
                "outputs_bytes_max",
                "The same for all clients together; beyond it the client with the most is closed.",
                AT_ONCE,
            ),
            row("turn_reply_bytes_max", "A turn of the region ends after so many bytes of replies.", AT_ONCE),
            row("turn_ms_max", "A turn of the region ends after so many milliseconds of commands.", AT_ONCE),
            row("auth_failure_delay_ms", "A wrong password is answered after this time; 0 for at once.", AT_ONCE),
            row("acl_log_entries_max", "Entries of `ACL LOG`.", AT_ONCE),
            row(
                "admission_wait_ms",
                "How long what creates groups waits until the region is admitted, then `TRYAGAIN`.",
            ),
        ),
    ),
    (
        "Memory",
        (
            row(
                "memory_bytes_max",
                "Resident memory beyond which writes are refused, and batches of peers wait; 0 for no bound.",
                AT_ONCE,
            ),
            row(
                "merged_ranges_bytes_max",
                "Memory for ranges of streams with several writing regions, kept as they were read.",
                AT_ONCE,
            ),
            row(
                "cold_after_ms",
                "How long nobody must have read a full block of entries, at least, before an idle region compresses it;"
                " 0 for never. Checkpoints compress blocks whatever it is, and a start leaves them so until they are"
                " read.",
                AT_ONCE,
            ),
            row("open_blocks_bytes_max", "Memory for compressed blocks that were opened to be read.", AT_ONCE),
            row(
                "hot_bytes_max",
                "Memory for blocks of entries, beyond which those that nobody reads stay on the disk only; 0 to keep"
                " all in memory.",
                AT_ONCE,
            ),
            row("copy_entries_max", "Entries of a stream that `RENAME` or `COPY` may rewrite.", AT_ONCE),
            row(
                "stream_node_entries_max",
                "Entries of a node: `MAXLEN ~` and `MINID ~` remove whole nodes only.",
                AT_ONCE,
            ),
            row(
                "stream_idmp_duration_s",
                "How long a region remembers an idempotent add, unless `XCFGSET` says otherwise.",
                AT_ONCE,
            ),
            row(
                "stream_idmp_entries_max",
                "How many idempotent adds of a producer a region remembers for each stream.",
                AT_ONCE,
            ),
            row("stream_node_bytes_max", "Accepted and shown to tools that ask for it; it has no effect.", AT_ONCE),
        ),
    ),
    (
        "Expiry and collection",
        (
            row("expired_keys_max", "Keys that one tick deletes because their time has come.", AT_ONCE),
            row(
                "expiry_takeover_ms",
                "After this time any region deletes an expired key that its own region has not deleted.",
                AT_ONCE,
            ),
            row(
                "retention_takeover_ms",
                "What a region wrote that was silent for so long is removed by another one, where a stream has limits.",
                AT_ONCE,
            ),
            row("collected_keys_max", "Keys that one tick looks at for tombstones to forget.", AT_ONCE),
            row(
                "deleted_streams_max",
                "Deleted streams of which a region remembers what was deleted, for readers by position and joins.",
                AT_ONCE,
            ),
        ),
    ),
    (
        "Log and checkpoints",
        (
            row("segment_bytes_max", "Size of a file of the log; smaller ones are made where the disk fills up."),
            row(
                "disk_reserve_bytes",
                "Disk space that is kept for what frees space on a full disk: removals, evictions, checkpoints; at most"
                " an eighth of the volume; 0 for none.",
            ),
            row(
                "log_tail_bytes_max",
                "Memory for the end of the log, kept for peers that keep up; what is not kept is read from disk.",
            ),
            row(
                "log_retention_bytes",
                "Log kept for peers; one that lacks more takes a whole state. 0 for no bound.",
                AT_ONCE,
            ),
            row(
                "log_yield_ms",
                "On a full disk, the log is kept so long for a peer that is not linked; then it takes a whole state. 0"
                " for ever.",
                AT_ONCE,
            ),
            row("checkpoint_log_bytes", "A checkpoint is taken when the log behind the last one has grown so large."),
            row(
                "stop_checkpoint_log_bytes",
                "A clean stop takes a checkpoint first where a start would replay so much log.",
                AT_ONCE,
            ),
            row(
                "stop_checkpoint_ms_max",
                "That checkpoint is given up after this time; 0 for no checkpoint before a stop.",
                AT_ONCE,
            ),
            row(
                "stop_handover_ms_max",
                "How long a clean stop lets linked peers take what they lack; 0 for not at all.",
                AT_ONCE,
            ),
            row(
                "moved_hold_ms_max",
                "How long a shard that has moved holds requests while it does not serve at its new place.",
                AT_ONCE,
            ),
            row("moved_answer_ms", "How long after that its old process sends clients to the new place.", AT_ONCE),
            row("durable_interval_ms", "With `fsync no`: pause between syncs that tell peers what is durable."),
        ),
    ),
    (
        "Replication",
        (
            row(
                "replication_interval_ms",
                "Pause between messages to peers, unless `message_bytes` wait; up to fourfold under full load.",
            ),
            row("message_bytes", "Size that a message to a peer aims at; where a link drains slowly, less."),
            row("message_bytes_max", "Bytes of one message between regions; peers send no larger ones."),
            row("window_bytes", "Bytes that a peer is sent ahead of what it has confirmed."),
            row("window_messages", "Messages with entries that it is sent ahead; beyond them, entries are gathered."),
            row(
                "inbox_bytes_max",
                "Bytes of batches that wait for others; of more, those of one peer are asked for again.",
            ),
            row(
                "batch_bytes_max",
                "Bytes of one batch that is taken from others; no region of the cluster writes a larger one.",
            ),
            row(
                "progress_rows_max",
                "Rows of progress of members that are kept; members beyond are not heard until there is room.",
            ),
            row(
                "exact_intervals_max",
                "Acknowledged intervals of one writer in a group that acknowledges exactly; later ones wait for gaps to"
                " close.",
                AT_ONCE,
            ),
            row(
                "names_max",
                "Names of adds (`XADD IDMP`) that are kept until all regions have the add. Of more the oldest leave:"
                " adds that regions made under them at the same time all stay.",
                AT_ONCE,
            ),
            row("heartbeat_ms", "How often a region gives a sign of life.", AT_ONCE),
            row(
                "peer_timeout_ms", "A peer that is silent for so long counts as lost. At least two heartbeats.", AT_ONCE
            ),
            row("greeting_timeout_ms", "A stream that has not greeted within this time is closed."),
            row("ungreeted_links_max", "Streams that have not greeted yet; of more, the oldest is closed."),
            row("backoff_ms_min", "Pause before a lost peer is dialled again; doubled each time."),
            row("backoff_ms_max", "The longest pause before a lost peer is dialled again."),
            row("transfer_keep_ms", "How long a state transfer that stopped half-way is kept, to be continued."),
            row("parts_keep_ms", "How long the first parts of a batch are kept when their link is lost, to go on."),
        ),
    ),
    (
        "Audit and diagnosis",
        (
            row(
                "audit_interval_ms",
                "Pause between two comparisons of the state with linked regions; 0 for no audit.",
                AT_ONCE,
            ),
            row("audit_entries_max", "Entries that the audit sums in one tick.", AT_ONCE),
            row("digest_entries_max", "Entries that `CRDT.DIGEST` sums in one turn.", AT_ONCE),
            row("dump_slice_bytes", "Bytes that `DUMP` writes, or `RESTORE` reads, in one turn.", AT_ONCE),
            row("slow_command_us", "`SLOWLOG` keeps commands that took so many microseconds; -1 for none.", AT_ONCE),
            row("slow_log_entries_max", "Commands that `SLOWLOG` keeps.", AT_ONCE),
            row("conflict_entries_max", "Conflicts that `CRDT.CONFLICTS` keeps, of all keys together.", AT_ONCE),
            row(
                "metrics_series_max",
                "Time series of streams and groups that `/metrics` shows, the largest streams first.",
                AT_ONCE,
            ),
        ),
    ),
    (
        "Partitioned streams",
        (
            row("forward_timeout_ms", "A call to the home region of a stream is given up after so long.", AT_ONCE),
            row(
                "takeover_ms",
                "A region that gets a call becomes the home of a stream if it was not linked to the home for so long;"
                " 0 for never: a command alone moves a home.",
                AT_ONCE,
            ),
        ),
    ),
    (
        "Bulk port",
        (
            row("bulk_message_bytes", "Size that a message of `Read` aims at.", AT_ONCE),
            row("bulk_message_bytes_max", "Bytes of one message to the bulk port."),
            row("bulk_calls_max", "Calls at once."),
            row("bulk_stage_bytes_max", "Bytes of staged rows, of all clients together.", AT_ONCE),
            row("bulk_stage_idle_s_max", "Staged rows leave after so long without a call.", AT_ONCE),
        ),
    ),
    (
        "OCI gateway",
        (
            row(
                "oci_partitions_max",
                "Partitions of all streams where `oci-limits` is `real`; a stream beyond it is `FAILED`.",
            ),
        ),
    ),
)
