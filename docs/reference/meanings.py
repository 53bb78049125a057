"""What the limits mean, in the words of the settings page; a test compares the names with the code."""

from __future__ import annotations

GROUPS: dict[str, dict[str, str]] = {
    "Clients": {
        "clients_max": "Clients at once. Lowered to what the number of open files allows.",
        "client_idle_s_max": "A client that is idle for so long is closed; 0 for never.",
        "blocked_clients_max": "Clients that wait in blocking commands at once.",
        "query_bytes_max": "Bytes that a client may send of requests that are not complete.",
        "bulk_bytes_max": "Bytes of one argument.",
        "arguments_max": "Arguments of one request.",
        "entry_bytes_max": "Bytes of one entry.",
        "output_bytes_max": "Bytes of replies that one client has not read; beyond it the client is closed.",
        "outputs_bytes_max": "The same for all clients together; beyond it the client with the most is closed.",
        "turn_reply_bytes_max": "A turn of the region ends after so many bytes of replies.",
        "turn_ms_max": "A turn of the region ends after so many milliseconds of commands.",
        "auth_failure_delay_ms": "A wrong password is answered after this time; 0 for at once.",
        "acl_log_entries_max": "Entries of `ACL LOG`.",
        "admission_wait_ms": "How long `XGROUP CREATE` waits until its region is admitted, then `TRYAGAIN`.",
    },
    "Memory": {
        "memory_bytes_max": "Resident memory beyond which writes are refused; 0 for no bound.",
        "merged_ranges_bytes_max": "Memory for ranges of streams with several writing regions, kept as they were read.",
        "cold_after_ms": (
            "How long nobody must have read a full block of entries before an idle region compresses it, at least; 0"
            " turns compression off."
        ),
        "open_blocks_bytes_max": "Memory for compressed blocks that were opened to be read.",
        "copy_entries_max": "Entries of a stream that `RENAME` or `COPY` may rewrite.",
        "stream_node_entries_max": "Entries of a node: `MAXLEN ~` and `MINID ~` remove whole nodes only.",
        "stream_idmp_duration_s": "How long a region remembers an idempotent add, unless `XCFGSET` says otherwise.",
        "stream_idmp_entries_max": "How many idempotent adds of a producer a region remembers for each stream.",
        "stream_node_bytes_max": "Accepted and shown to tools that ask for it; it has no effect.",
    },
    "Expiry and collection": {
        "expired_keys_max": "Keys that one tick deletes because their time has come.",
        "expiry_takeover_ms": "After this time any region deletes an expired key that its own region has not deleted.",
        "collected_keys_max": "Keys that one tick looks at for tombstones to forget.",
    },
    "Log and checkpoints": {
        "segment_bytes_max": "Size of a file of the log.",
        "log_retention_bytes": "Log kept for peers; one that lacks more takes a whole state. 0 for no bound.",
        "checkpoint_log_bytes": "A checkpoint is taken when the log behind the last one has grown so large.",
        "stop_checkpoint_log_bytes": "A clean stop takes a checkpoint first where a start would replay so much log.",
        "stop_checkpoint_ms_max": "That checkpoint is given up after this time; 0 for no checkpoint before a stop.",
        "stop_handover_ms_max": "How long a clean stop lets linked peers take what they lack; 0 for not at all.",
        "durable_interval_ms": "With `fsync no`: pause between syncs that tell peers what is durable.",
    },
    "Replication": {
        "replication_interval_ms": "Pause before the next message to a peer, unless `message_bytes` wait.",
        "message_bytes": "Size that a message to a peer aims at.",
        "message_bytes_max": "Bytes of one message between regions.",
        "window_bytes": "Bytes that a peer is sent ahead of what it has confirmed.",
        "inbox_bytes_max": "Bytes of batches that wait for others; beyond it the link that brought most is closed.",
        "batch_bytes_max": "Bytes of one batch, however many messages it takes.",
        "progress_rows_max": "Rows of progress that a peer may tell.",
        "heartbeat_ms": "How often a region gives a sign of life.",
        "peer_timeout_ms": "A peer that is silent for so long counts as lost. At least two heartbeats.",
        "greeting_timeout_ms": "A stream that has not greeted within this time is closed.",
        "ungreeted_links_max": "Streams that have not greeted yet; of more, the oldest is closed.",
        "backoff_ms_min": "Pause before a lost peer is dialled again; doubled each time.",
        "backoff_ms_max": "The longest pause before a lost peer is dialled again.",
        "transfer_keep_ms": "How long a state transfer that stopped half-way is kept, to be continued.",
    },
    "Audit and diagnosis": {
        "audit_interval_ms": "Pause between two comparisons of the state with linked regions; 0 for no audit.",
        "audit_entries_max": "Entries that the audit sums in one tick.",
        "digest_entries_max": "Entries that `CRDT.DIGEST` sums in one turn.",
        "slow_command_us": "`SLOWLOG` keeps commands that took so many microseconds; -1 for none.",
        "slow_log_entries_max": "Commands that `SLOWLOG` keeps.",
        "metrics_series_max": "Time series of streams and groups that `/metrics` shows, the largest streams first.",
    },
    "Partitioned streams": {
        "forward_timeout_ms": "A call to the home region of a stream is given up after so long.",
        "takeover_ms": "A region that gets a call becomes the home of a stream if it was not linked to the home for so"
        " long; 0 for never: a command alone moves a home.",
    },
    "Bulk port": {
        "bulk_message_bytes": "Size that a message of `Read` aims at.",
        "bulk_message_bytes_max": "Bytes of one message to the bulk port.",
        "bulk_calls_max": "Calls at once.",
        "bulk_stage_bytes_max": "Bytes of staged rows, of all clients together.",
        "bulk_stage_idle_s_max": "Staged rows leave after so long without a call.",
    },
    "OCI gateway": {
        "oci_partitions_max": "Partitions of all streams where `oci-limits` is `real`; a stream beyond it is `FAILED`.",
    },
}
