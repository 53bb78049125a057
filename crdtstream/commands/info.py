"""INFO: the state of the region for people and tools, in Redis's sections and field names.

Fields that only a C server has are left out, except a few that tools always read; those are 0.

Reference: `genRedisInfoString` of Redis.
"""

from __future__ import annotations

from collections.abc import Callable

from crdtstream import __version__
from crdtstream.commands.disk import disk_fields
from crdtstream.commands.group_reading import GroupReader
from crdtstream.commands.regions import origin_text, vector_text
from crdtstream.commands.server import REDIS_VERSION
from crdtstream.connections.client import Client
from crdtstream.connections.cluster import LINK_OPEN, LINK_TRANSFER, PeerStatus
from crdtstream.connections.command import Command
from crdtstream.connections.context import Context, Reply
from crdtstream.connections.statistics import Tally
from crdtstream.connections.subscriptions import CHANNEL, PATTERN, SHARD
from crdtstream.core.effects import Key
from crdtstream.core.keyspace import DATABASES
from crdtstream.core.values.causality import origin_name
from crdtstream.protocols import replies

Field = tuple[str, object]

SECOND_MS = 1000
KIB = 1024
DAY_MS = 24 * 60 * 60 * SECOND_MS
EVERYTHING = (b"ALL", b"EVERYTHING")


def info(context: Context, client: Client, argv: list[bytes]) -> Reply:
    wanted = [name.upper() for name in argv[1:]] or [b"DEFAULT"]
    sections: list[str] = []
    for title, by_default, fields in SECTIONS:
        if title.upper().encode() in wanted or wants(wanted, by_default):
            lines = [f"{name}:{value}\r\n" for name, value in fields(context)]
            sections.append(f"# {title}\r\n" + "".join(lines))
    return replies.verbatim("\r\n".join(sections).encode("utf-8", "surrogateescape"), client.protocol)


def wants(wanted: list[bytes], by_default: bool) -> bool:
    return any(name in EVERYTHING or (by_default and name == b"DEFAULT") for name in wanted)


def server_fields(context: Context) -> list[Field]:
    about = context.about
    uptime_ms = max(0, context.now_ms - context.clock.started_ms)
    return [
        ("redis_version", REDIS_VERSION.decode()),
        ("crdtstream_version", __version__),
        ("crdtstream_commit", about.commit),
        ("crdtstream_commit_date", about.commit_date),
        ("redis_mode", "standalone" if context.shards is None else "cluster"),
        ("arch_bits", 64),
        ("process_id", about.process_id),
        ("run_id", about.run_id),
        ("tcp_port", context.settings.config.port or context.settings.config.tls_port),
        ("server_time_usec", context.now_ms * 1000),
        ("uptime_in_seconds", uptime_ms // SECOND_MS),
        ("uptime_in_days", uptime_ms // DAY_MS),
        ("hz", 10),
        ("executable", ""),
        ("config_file", context.settings.config.config_file),
        ("certificates_not_after", ",".join([f"{port}={end_s}" for port, end_s in about.certificates.items()])),
    ]


def client_fields(context: Context) -> list[Field]:
    paused = context.pause.describe(context.now_ms)
    return [
        ("connected_clients", len(context.clients)),
        ("cluster_connections", 0),
        ("maxclients", context.clients_max()),
        ("blocked_clients", context.blocked_clients()),
        ("tracking_clients", 0),
        ("pubsub_clients", context.pubsub.clients()),
        ("clients_in_timeout_table", len(context.parking)),
        ("total_blocking_keys", len(context.parking.keys())),
        ("total_blocking_keys_on_nokey", len(keys_of_groups(context))),
        *zip(("paused_reason", "paused_actions", "paused_timeout_milliseconds"), paused, strict=True),
    ]


def keys_of_groups(context: Context) -> set[Key]:
    """The keys that clients wait for in groups, whose end ends their wait."""
    return {key for waiter in context.parking.all() if isinstance(waiter, GroupReader) for key in waiter.keys}


def memory_fields(context: Context) -> list[Field]:
    """Memory in use is the resident size, as the runtime last measured it."""
    about = context.about
    used, peak, most = about.memory_bytes, about.memory_peak_bytes, context.limits.memory_bytes_max
    return [
        ("used_memory", used),
        ("used_memory_human", human(used)),
        ("used_memory_rss", used),
        ("used_memory_rss_human", human(used)),
        ("used_memory_peak", peak),
        ("used_memory_peak_human", human(peak)),
        ("used_memory_peak_perc", f"{used * 100 / peak if peak else 100:.2f}%"),
        ("total_system_memory", about.system_bytes),
        ("total_system_memory_human", human(about.system_bytes)),
        ("used_memory_lua", 0),
        ("maxmemory", most),
        ("maxmemory_human", human(most)),
        ("maxmemory_policy", "noeviction"),
        ("mem_fragmentation_ratio", "1.00"),
        ("mem_allocator", "libc"),
        *block_fields(context),
    ]


def block_fields(context: Context) -> list[Field]:
    """Full blocks of entries as the last walk over all keys found them: how many there are, how many are packed."""
    packing = context.packing
    return [
        ("blocks_walks", packing.walks),
        ("blocks_full", packing.census.blocks),
        ("blocks_cold", packing.census.packed_blocks),
        ("blocks_cold_bytes", packing.census.packed_bytes),
        ("blocks_damaged", packing.damaged),
        ("blocks_opened", packing.open_blocks.opened),
        ("blocks_open_bytes", packing.open_blocks.open_bytes),
        *spilled_fields(context),
    ]


def spilled_fields(context: Context) -> list[Field]:
    """What blocks take in memory, by the last walk that spilled some and what was written since; of that, what cannot
    be spilled, in parts; what pending entries take besides; and what was read of spilled blocks.
    """
    walk, reads = context.spilling.walk, context.replica.reads
    return [
        ("hot_bytes_max", context.limits.hot_bytes_max),
        ("hot_bytes", walk.hot_bytes()),
        ("hot_bytes_unspillable", walk.unspillable_bytes()),
        ("hot_bytes_last_blocks", walk.bound.last),
        ("hot_bytes_unsaved", walk.unsaved_bytes()),
        ("hot_bytes_trimmed_blocks", walk.bound.trimmed),
        ("pending_bytes", walk.bound.pending),
        ("spilled_blocks", walk.spilled_blocks),
        ("spilled_bytes", walk.spilled_bytes),
        ("spills", walk.spills),
        ("cold_reads", context.block_reads.read_blocks + reads.at_once + reads.waited),
        ("cold_reads_at_once", reads.at_once),
        ("cold_reads_waited", reads.waited),
        ("cold_read_bytes", context.block_reads.read_bytes + reads.read_bytes),
        ("cold_waits", context.block_reads.started),
    ]


def human(count: int) -> str:
    """A readable size, as Redis writes it."""
    if count < KIB:
        return f"{count}B"
    size = count / KIB
    for unit in "KMG":
        if size < KIB:
            return f"{size:.2f}{unit}"
        size /= KIB
    return f"{size:.2f}T"


def persistence_fields(context: Context) -> list[Field]:
    """A checkpoint is shown both as a background save and as a rewrite of the log. `log_damages` counts the places in
    the log that could not be read since the start; `log_last_damage` is the file and byte of the last one.
    `blocks_unreadable` counts blocks for which work of the region waits now.
    """
    saving = context.saving
    status = "err" if saving.failure else "ok"
    return [
        ("loading", int(context.standing.loading != "")),
        ("loading_reason", context.standing.loading),
        ("fsync", context.settings.config.fsync),
        ("async_loading", 0),
        ("rdb_changes_since_last_save", context.replica.applied.changes() - context.saving.effects),
        ("rdb_bgsave_in_progress", int(saving.running)),
        ("rdb_last_save_time", context.saved_ms() // SECOND_MS),
        ("rdb_last_bgsave_status", status),
        ("rdb_last_bgsave_time_sec", -1),
        ("rdb_current_bgsave_time_sec", -1),
        ("aof_enabled", 1),
        ("aof_rewrite_in_progress", int(saving.running)),
        ("aof_rewrite_scheduled", int(saving.requested)),
        ("aof_last_bgrewrite_status", status),
        ("aof_last_write_status", "ok" if context.standing.writable else "err"),
        ("blocks_unreadable", len(saving.unreadable)),
        ("blocks_first_unreadable", saving.unreadable[0] if saving.unreadable else ""),
        ("log_damages", len(context.saving.damages)),
        ("log_last_damage", context.saving.damages[-1] if context.saving.damages else ""),
        *disk_fields(context),
    ]


def statistics_fields(context: Context) -> list[Field]:
    statistics = context.statistics
    return [
        ("total_connections_received", statistics.connections),
        ("total_commands_processed", statistics.commands()),
        ("instantaneous_ops_per_sec", statistics.commands_per_s()),
        ("total_net_input_bytes", 0),
        ("total_net_output_bytes", 0),
        ("instantaneous_input_kbps", "0.00"),
        ("instantaneous_output_kbps", "0.00"),
        ("rejected_connections", statistics.rejected_connections),
        ("sync_full", 0),
        ("sync_partial_ok", 0),
        ("sync_partial_err", 0),
        ("expired_keys", context.replica.expired_keys),
        *retention_fields(context),
        ("letters_written", statistics.letters_written),
        ("letters_redriven", statistics.letters_returned),
        ("letters_refused", statistics.letters_refused),
        ("evicted_keys", 0),
        ("keyspace_hits", statistics.hits),
        ("keyspace_misses", statistics.misses),
        ("pubsub_channels", len(context.pubsub.names(CHANNEL))),
        ("pubsub_patterns", len(context.pubsub.names(PATTERN))),
        ("pubsubshard_channels", len(context.pubsub.names(SHARD))),
        ("latest_fork_usec", 0),
        ("total_forks", 0),
        ("total_error_replies", sum(statistics.errors.values())),
        ("client_output_buffer_limit_disconnections", statistics.output_disconnections),
        ("acl_access_denied_auth", statistics.denied_passwords),
        ("acl_access_denied_cmd", statistics.denied_commands),
        ("acl_access_denied_key", statistics.denied_keys),
        ("acl_access_denied_channel", statistics.denied_channels),
        ("tls_handshakes_refused", statistics.refused_handshakes),
        ("http_clients_closed", statistics.http_clients),
    ]


def retention_fields(context: Context) -> list[Field]:
    """What this region removed because a stream has limits."""
    fields: list[Field] = []
    for reason, (entries, byte_count) in context.replica.keyspace.retained.removed.items():
        fields.append((f"retention_{reason.decode()}_entries", entries))
        fields.append((f"retention_{reason.decode()}_bytes", byte_count))
    return fields


def replication_fields(context: Context) -> list[Field]:
    config, admission, peers = context.settings.config, context.cluster.admission, context.cluster.neighbours.peers()
    replica = context.replica
    fields: list[Field] = [
        ("role", "master"),
        ("connected_slaves", 0),
        ("master_failover_state", "no-failover"),
        ("master_replid", context.about.run_id),
        ("master_repl_offset", replica.applied.counter()),
        ("second_repl_offset", -1),
        ("repl_backlog_active", 0),
        ("cluster", config.cluster),
        ("region", config.region),
        ("region_name", config.name),
        ("origin", origin_text(context)),
        ("admitted", int(admission is None or admission.admitted)),
        ("id_mode", config.id_mode),
        ("vector_origins", replica.applied.vector.origin_count()),
        ("vector", vector_text(replica.applied.vector)),
        ("durable_vector", vector_text(context.cluster.neighbours.durable())),
        ("peers", max(len(config.peers), len(peers))),
        ("connected_regions", len([peer for peer in peers if peer.link in (LINK_OPEN, LINK_TRANSFER)])),
        # What one entry, transaction or copy may take, the limit that says so, and the region that has it.
        ("largest_write_bytes", replica.budget.limit),
        ("largest_write_limit", replica.budget.name),
        ("largest_write_region", replica.budget.region),
    ]
    fields += waiting_fields(context)
    return (
        fields
        + audit_fields(context)
        + conflict_fields(context)
        + name_fields(context)
        + start_over_fields(context)
        + peer_fields(context, peers)
    )


def waiting_fields(context: Context) -> list[Field]:
    """`inbound_lacking`: what there is no room in for batches of peers, `disk` or `memory`, empty if there is room;
    `inbound_lacking_ms`: for how long; `inbox_batches`: batches that wait for that, or for other batches.
    `progress_dropped_members`: members whose progress exceeds `progress_rows_max` and is not heard.
    """
    lacking, lacking_ms, batches, byte_count = context.cluster.neighbours.waits()
    return [
        ("inbound_lacking", lacking),
        ("inbound_lacking_ms", lacking_ms),
        ("inbox_batches", batches),
        ("inbox_bytes", byte_count),
        ("progress_dropped_members", context.cluster.neighbours.unheard()),
    ]


def start_over_fields(context: Context) -> list[Field]:
    """`start_over`: the progress of starting over, empty if it is not running; `start_overs`: how often this region
    started over, as far as this process knows; `start_over_last_region` and `start_over_last_time`: from which region
    this process did so last, and when.
    """
    known = context.cluster.start_over
    if known is None:
        return []
    return [
        ("start_over", known.state()),
        ("start_overs", known.count),
        ("start_over_last_region", known.last_source),
        ("start_over_last_time", known.last_ms // SECOND_MS),
    ]


def audit_fields(context: Context) -> list[Field]:
    """`audit_rounds`: how often the sums were computed; `audit_comparisons`: how often they were compared with a peer
    at the same vector; `audit_differences`: how often they differed; `audit_shared_origins`: the origins under which
    two regions hold different effects.
    """
    audit = context.cluster.audit
    if audit is None:
        return []
    return [
        ("audit_rounds", audit.rounds),
        ("audit_comparisons", audit.comparisons),
        ("audit_differences", audit.differences),
        ("audit_last_time", audit.last_ms // SECOND_MS),
        ("audit_shared_origins", ";".join(map(origin_name, audit.shared_origins()))),
    ]


def conflict_fields(context: Context) -> list[Field]:
    """How many conflicts of each kind this region has seen since its start (core/conflicts.py)."""
    counts = context.replica.applied.conflicts.counts
    return [(f"conflicts_{kind.replace('-', '_')}", count) for kind, count in counts.items()]


def name_fields(context: Context) -> list[Field]:
    """`names`: names of adds that may still meet concurrent ones; `names_removed`: entries that this region removed,
    because another one of their name stays; `names_dropped`: names beyond `names_max`, under which all adds stay.
    """
    named = context.replica.keyspace.named
    return [("names", named.held), ("names_removed", named.removed), ("names_dropped", named.dropped)]


def peer_fields(context: Context, peers: list[PeerStatus]) -> list[Field]:
    """`lag`: effects held here that the peer has not applied; `durable_lag`: effects that are not durable there;
    `held_back_bytes`: bytes of the log retained for the peer; `sent_bytes`: bytes of batches sent since the link
    opened. `lacking`, with `lacking_ms`: what a peer has no room in, so that batches for it wait. A peer without a link
    also has `unlinked_ms`, for how long, and `reason`, why, at the end of the line.
    """
    fields: list[Field] = []
    for index, peer in enumerate(peers):
        held_back = context.cluster.held_back(context.replica.applied, peer.origin)
        lag, durable_lag = context.cluster.lags_of(context.replica.applied.vector, peer)
        text = (
            f"region={peer.region},name={peer.name},address={peer.address},link={peer.link},"
            f"silent_ms={peer.silent_ms},lag={lag},durable_lag={durable_lag},"
            f"held_back_bytes={held_back},sent_bytes={peer.sent_bytes}"
        )
        shown = peer.transfer
        if shown is not None:
            text += f",transfer={shown.direction},transfer_chunks={shown.chunks},transfer_bytes={shown.byte_count}"
        if peer.lacking:
            text += f",lacking={one_value(peer.lacking)},lacking_ms={peer.lacking_ms}"
        if peer.unlinked_ms >= 0:
            text += f",unlinked_ms={peer.unlinked_ms},reason={one_value(peer.reason)}"
        fields.append((f"peer{index}", text))
    return fields


def one_value(text: str) -> str:
    """The text without the characters that would end it in a line of comma-separated pairs."""
    return " ".join(text.split()).replace(",", ";")


def processor_fields(context: Context) -> list[Field]:
    """CPU time of the whole process, including its threads."""
    about = context.about
    return [
        ("used_cpu_sys", f"{about.cpu_system_s:.6f}"),
        ("used_cpu_user", f"{about.cpu_user_s:.6f}"),
        ("used_cpu_sys_children", "0.000000"),
        ("used_cpu_user_children", "0.000000"),
    ]


def no_fields(context: Context) -> list[Field]:
    return []


def command_fields(context: Context) -> list[Field]:
    return [(f"cmdstat_{name}", text_of(tally)) for name, tally in sorted(context.statistics.tallies.items())]


def text_of(tally: Tally) -> str:
    per_call_us = tally.took_ns / 1000 / tally.calls if tally.calls else 0.0
    return (
        f"calls={tally.calls},usec={tally.took_ns // 1000},usec_per_call={per_call_us:.2f},"
        f"rejected_calls={tally.rejected},failed_calls={tally.failed}"
    )


def error_fields(context: Context) -> list[Field]:
    return [(f"errorstat_{code}", f"count={count}") for code, count in sorted(context.statistics.errors.items())]


def cluster_fields(context: Context) -> list[Field]:
    shards = context.shards
    fields: list[Field] = [("cluster_enabled", int(shards is not None))]
    if shards is not None:
        fields += [("shard", shards.own), ("shards", len(shards.shards)), ("shard_map_epoch", shards.epoch)]
    return fields


def keyspace_fields(context: Context) -> list[Field]:
    fields: list[Field] = []
    for database in range(DATABASES):
        names = context.replica.keyspace.keys(database)
        if names:
            left = times_left(context, database)
            average_ms = sum(left) // len(left) if left else 0
            fields.append((f"db{database}", f"keys={len(names)},expires={len(left)},avg_ttl={average_ms}"))
    return fields


def times_left(context: Context, database: int) -> list[int]:
    """For each key with an expiry, the milliseconds until then."""
    deadlines = context.replica.keyspace.deadlines.times
    return [
        expires_ms - context.now_ms
        for key, expires_ms in deadlines.items()
        if key[0] == database and context.replica.keyspace.peek(key) is not None
    ]


SECTIONS: list[tuple[str, bool, Callable[[Context], list[Field]]]] = [
    ("Server", True, server_fields),
    ("Clients", True, client_fields),
    ("Memory", True, memory_fields),
    ("Persistence", True, persistence_fields),
    ("Stats", True, statistics_fields),
    ("Replication", True, replication_fields),
    ("CPU", True, processor_fields),
    ("Modules", True, no_fields),
    ("Commandstats", False, command_fields),
    ("Errorstats", True, error_fields),
    ("Latencystats", False, no_fields),
    ("Cluster", True, cluster_fields),
    ("Keyspace", True, keyspace_fields),
]


COMMANDS: list[Command] = [
    Command(
        "info",
        info,
        arity=-1,
        flags="loading stale",
        categories="dangerous",
        since="1.0.0",
        group="server",
        summary="Returns information and statistics about the server.",
        syntax="[section...]",
    ),
]
