"""The families of the region itself: standing, clients, commands, log, checkpoints, replication, audit, bulk port."""

from __future__ import annotations

import os
from collections.abc import Iterator

from prometheus_client.core import HistogramMetricFamily, Metric

from crdtstream import __version__
from crdtstream.connections.context import Context
from crdtstream.connections.statistics import Tally
from crdtstream.core.values.causality import origin_name
from crdtstream.region.node import Node
from crdtstream.runtime.bulk.server import BulkServer
from crdtstream.runtime.logs.logging import log_counts
from crdtstream.runtime.metrics.families import PREFIX, buckets_of, counter, counters, gauge, gauges, histogram, info
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.status.availability import DISK, MEMORY
from crdtstream.status.events import AS_GIVEN, ERROR, EVENTS, WARNING, Event
from crdtstream.storage.log import Log

# Bounds of commands: 2^14 ns (16 us) to 2^34 ns (17 s), each four times the one before.
COMMAND_BITS = range(14, 36, 2)
CODES_MAX = 64
OTHER_CODES = "other"


def standing_families(context: Context) -> Iterator[Metric]:
    config, standing, admission = context.settings.config, context.standing, context.cluster.admission
    origin = context.replica.applied.origin
    texts = {
        "name": config.name,
        "number": str(config.region),
        "cluster_name": config.cluster,
        "origin": origin_name(origin) if origin else "",
        "version": __version__,
        "id_mode": config.id_mode,
        "fsync": config.fsync,
    }
    if context.shards is not None:
        texts["shard"] = str(context.shards.own)
    yield info("region_info", "What this region is.", texts)
    build = {"version": __version__, "commit": context.about.commit, "commit_date": context.about.commit_date}
    yield info("build_info", "Which build the region runs.", build)
    yield gauge("serving", "1 if clients are served.", not standing.loading)
    yield gauge("admitted", "1 if this origin creates groups.", admission is None or admission.admitted)
    yield gauge("writable", "1 unless the disk is full.", standing.writable)
    meaning = "What must be free for writes to go on; 0 while they do."
    yield gauge("disk_needed_bytes", meaning, standing.volume.needed_bytes)
    meaning = "Disk space that is kept for what frees space."
    yield gauge("disk_reserve_bytes", meaning, standing.volume.reserve_bytes)
    yield gauge("memory_short", "1 if memory_bytes_max is reached, so that writes are refused.", standing.memory_short)
    meaning = "Resident memory."
    yield gauge("memory_resident_bytes", meaning, context.about.memory_bytes)
    yield gauge("memory_limit_bytes", "memory_bytes_max; 0 for no bound.", context.limits.memory_bytes_max)
    about = context.about
    rows = [(("user",), about.cpu_user_s), (("system",), about.cpu_system_s)]
    yield counters("cpu_seconds_total", "Processor time of the process.", ("mode",), rows)
    yield gauge("start_timestamp_seconds", "When the region started.", context.clock.started_ms / 1000)
    meaning = "When the certificate that a port shows ends, or the authority that signed it."
    ends = [((port,), float(end_s)) for port, end_s in about.certificates.items()]
    yield gauges("certificate_not_after_timestamp_seconds", meaning, ("port",), ends)


def client_families(context: Context) -> Iterator[Metric]:
    statistics = context.statistics
    yield gauge("clients_connected", "Clients of the Redis port.", len(context.clients))
    meaning = "Clients that wait in a blocking command, or for the end of a pause."
    yield gauge("clients_blocked", meaning, context.blocked_clients())
    yield gauge("clients_limit", "clients_max, or what the limit of open files allows.", context.clients_max())
    yield counter("connections_total", "Connections accepted.", statistics.connections)
    yield counter("connections_rejected_total", "Connections not accepted.", statistics.rejected_connections)
    yield counter("clients_cut_off_total", "Clients that read too slowly.", statistics.output_disconnections)
    yield counter("passwords_denied_total", "Wrong passwords.", statistics.denied_passwords)
    yield counter("http_clients_closed_total", "HTTP on the Redis port.", statistics.http_clients)
    yield counter("keyspace_hits_total", "Reads of keys that exist.", statistics.hits)
    yield counter("keyspace_misses_total", "Reads of keys that do not exist.", statistics.misses)


def command_families(context: Context) -> Iterator[Metric]:
    tallies = sorted(context.statistics.tallies.items())
    meaning = "How long commands ran, without the wait of blocking ones."
    times = HistogramMetricFamily(f"{PREFIX}command_duration_seconds", meaning, labels=["command"])
    for name, tally in tallies:
        times.add_metric([name], command_buckets(tally), tally.took_ns / 1e9)
    yield times
    rows = [((name,), float(tally.failed)) for name, tally in tallies]
    yield counters("commands_failed_total", "Commands answered with an error.", ("command",), rows)
    rows = [((name,), float(tally.rejected)) for name, tally in tallies]
    yield counters("commands_rejected_total", "Commands that did not run.", ("command",), rows)
    yield counters("errors_total", "Error replies by code.", ("code",), error_rows(context.statistics.errors))


def command_buckets(tally: Tally) -> list[tuple[str, float]]:
    counts, done = [], 0
    for bits in COMMAND_BITS:
        counts.append(sum(tally.buckets[done : bits + 1]))
        done = bits + 1
    counts.append(sum(tally.buckets[done:]))
    return buckets_of([2.0**bits / 1e9 for bits in COMMAND_BITS], counts)


def error_rows(errors: dict[str, int]) -> list[tuple[tuple[str, ...], float]]:
    """The most frequent codes, and the sum of all others."""
    ordered = sorted(errors.items(), key=lambda one: (-one[1], one[0]))
    rows: list[tuple[tuple[str, ...], float]] = [((code,), count) for code, count in ordered[:CODES_MAX]]
    if len(ordered) > CODES_MAX:
        rows.append(((OTHER_CODES,), sum(count for _, count in ordered[CODES_MAX:])))
    return rows


def log_families(node: Node, log: Log, meters: Meters) -> Iterator[Metric]:
    yield histogram("log_append_duration_seconds", "Appends of turns to the log.", meters.append)
    yield histogram("log_sync_duration_seconds", "Syncs of the log.", meters.sync)
    yield histogram("checkpoint_duration_seconds", "Checkpoints, from begin to end.", meters.checkpoint)
    yield histogram("turn_duration_seconds", "Ends of turns: records, replies and messages.", meters.turn)
    yield histogram("loop_lag_seconds", "How late the event loop wakes, ten times a second.", meters.loop_lag)
    yield histogram("scrape_slice_seconds", "How long a scrape holds the event loop at once.", meters.scrape_slice)
    yield counter("log_records_total", "Records of the log, ever.", log.last_position)
    yield gauge(
        "log_unsynced_records", "Records that are not known to be on disk.", log.last_position - log.synced_position
    )
    yield gauge("log_size_bytes", "The log on disk, with space that is preallocated.", log.byte_count())
    yield counter("log_damages_total", "Places of the log that cannot be read, since the start.", len(log.damages))
    saving = node.saving
    yield counter("checkpoint_failures_total", "Checkpoints that failed.", meters.checkpoint_failures)
    yield gauge("checkpoint_running", "1 while a checkpoint is taken.", saving.running)
    yield gauge("checkpoint_last_timestamp_seconds", "When the last one ended; 0 for never.", saving.saved_ms / 1000)
    yield from disk_families(node.settings.config.data)


def disk_families(directory: str) -> Iterator[Metric]:
    try:
        found = os.statvfs(directory)
    except OSError:
        return
    yield gauge("data_free_bytes", "Space left for the data directory.", found.f_bavail * found.f_frsize)


def replication_families(node: Node) -> Iterator[Metric]:
    context, inbox = node.context, node.exchange.arrivals.inbox
    vector = context.replica.applied.vector
    yield counter("effects_total", "Effects of all regions that are applied here.", vector.total())
    yield gauge("vector_origins", "Origins that the region knows.", vector.origin_count())
    yield gauge("inbox_batches", "Batches that wait for others, or for room.", inbox.waiting_count)
    yield gauge("inbox_held_bytes", "Memory of batches that wait for others, or for room.", inbox.held_bytes)
    meaning = "How often batches exceeded what may wait, and were dropped to be asked for again."
    yield counter("inbox_drops_total", meaning, node.exchange.arrivals.drops)
    lacking, lacking_ms, _, _ = context.cluster.neighbours.waits()
    meaning = "How long batches of peers have waited for room on the disk or in memory; 0 while there is room."
    rows = [((kind,), lacking_ms / 1000 if kind == lacking else 0.0) for kind in (DISK, MEMORY)]
    yield gauges("inbound_lacking_seconds", meaning, ("lacking",), rows)
    rows = [((kind,), float(count)) for kind, count in context.replica.applied.conflicts.counts.items()]
    yield counters("conflicts_total", "What met without having seen each other, since the start.", ("kind",), rows)
    yield from retention_families(context)
    yield from letter_families(context)
    named = context.replica.keyspace.named
    yield gauge("names", "Names of adds that may still meet concurrent ones.", named.held)
    meaning = "Entries that were removed here because another one of their name stays."
    yield counter("names_removed_total", meaning, named.removed)
    meaning = "Names beyond names_max: what was added under them at the same time all stays."
    yield counter("names_dropped_total", meaning, named.dropped)
    start_over = context.cluster.start_over
    if start_over is not None:
        yield counter("start_overs_total", "How often the region took another's state.", start_over.count)
    audit = context.cluster.audit
    if audit is not None:
        yield counter("audit_rounds_total", "How often the own state was summed.", audit.rounds)
        yield counter("audit_comparisons_total", "Comparisons with a peer at the same vector.", audit.comparisons)
        yield counter("audit_differences_total", "Comparisons that found a difference.", audit.differences)
        yield gauge("audit_shared_origins", "Origins that two processes used.", len(audit.shared_origins()))
        yield gauge(
            "audit_last_timestamp_seconds", "When the state was last summed; 0 for never.", audit.last_ms / 1000
        )


def levels_of(event: Event) -> tuple[str, ...]:
    return (WARNING, ERROR) if event.level == AS_GIVEN else (event.level,)


def retention_families(context: Context) -> Iterator[Metric]:
    removed = [((reason.decode(),), counts) for reason, counts in context.replica.keyspace.retained.removed.items()]
    meaning = "Entries that this region removed because a stream has limits, since the start."
    entries = [(label, entries) for label, (entries, _) in removed]
    yield counters("retention_removed_entries_total", meaning, ("reason",), entries)
    sizes = [(label, byte_count) for label, (_, byte_count) in removed]
    yield counters("retention_removed_bytes_total", "The bytes of these entries.", ("reason",), sizes)


def letter_families(context: Context) -> Iterator[Metric]:
    statistics = context.statistics
    yield counter("letters_written_total", "Entries that were moved to a dead-letter key.", statistics.letters_written)
    yield counter("letters_redriven_total", "Letters that CRDT.REDRIVE brought back.", statistics.letters_returned)
    meaning = "Claims that delivered an entry beyond MAXDELIVERIES, because it was a letter 16 times."
    yield counter("letters_refused_total", meaning, statistics.letters_refused)


def bulk_families(node: Node, bulk: BulkServer | None) -> Iterator[Metric]:
    if bulk is None:
        return
    yield gauge("bulk_calls_running", "Calls of the bulk port that run.", bulk.running)
    yield counter("bulk_calls_total", "Calls of the bulk port.", bulk.calls)
    rows = [((code,), count) for code, count in sorted(bulk.refusals.items())]
    yield counters("bulk_calls_failed_total", "Calls that ended with an error.", ("code",), rows)
    rows = [((reason,), count) for reason, count in sorted(bulk.skipped.items())]
    yield counters("bulk_rows_skipped_total", "Rows that callers asked to leave out, by the reason.", ("reason",), rows)
    yield gauge("bulk_stage_bytes", "Rows that wait to be published.", node.stages.byte_count)


def event_families() -> Iterator[Metric]:
    """Those that never happened are shown too: an increase from nothing would not be seen."""
    never = {(event.name, level): 0 for event in EVENTS.values() for level in levels_of(event)}
    rows = [(name, float(count)) for name, count in sorted({**never, **log_counts}.items())]
    yield counters(
        "log_events_total", "Events of the log, as far as log_level lets them pass.", ("event", "level"), rows
    )
