"""The figures of a region are those that INFO has."""

from __future__ import annotations

from crdtstream import __version__
from crdtstream.connections.statistics import Tally
from crdtstream.region.node import Node
from crdtstream.runtime.logs.logging import log_counts
from crdtstream.runtime.metrics.meters import Meters
from crdtstream.runtime.metrics.of_region import (
    CODES_MAX,
    bulk_families,
    client_families,
    command_buckets,
    command_families,
    disk_families,
    error_rows,
    event_families,
    log_families,
    replication_families,
    standing_families,
)
from crdtstream.settings.config import Config
from crdtstream.storage.log import open_log
from simulations.disk import SimulatedDisk
from tests.commands.harness import Region
from tests.runtime.metrics.scraped import scraped


def test_clients_and_commands() -> None:
    region = Region()
    for line in ("XADD s 1-1 f v", "XADD s 1-1 f v", "XLEN s", "XLEN t", "NOTHING", "XLEN"):
        region.line(line)
    found = scraped([*client_families(region.context), *command_families(region.context)])
    assert found.value("clients_connected") == 1
    assert found.value("command_duration_seconds_count", command="xadd") == 2
    assert found.value("commands_failed_total", command="xadd") == 1
    assert found.value("commands_rejected_total", command="xlen") == 1
    assert found.value("errors_total", code="ERR") == 3
    assert (found.value("keyspace_hits_total"), found.value("keyspace_misses_total")) == (1, 1)


def test_commands_lie_below_the_bounds_of_their_buckets() -> None:
    tally = Tally()
    times_ns = [0, 1, 2**14 - 1, 2**14, 2**20, 2**30 + 5, 2**34, 2**50]
    for took_ns in times_ns:
        tally.buckets[took_ns.bit_length()] += 1
    buckets = [(float(le), count) for le, count in command_buckets(tally)]
    assert buckets[-1] == (float("inf"), len(times_ns))
    for le, count in buckets:
        assert count == sum(took_ns / 1e9 < le for took_ns in times_ns), le


def test_codes_are_bounded() -> None:
    rows = error_rows({f"CODE{number}": number for number in range(CODES_MAX + 10)})
    assert len(rows) == CODES_MAX + 1 and rows[-1] == (("other",), sum(range(10)))


def test_standing_and_replication_of_a_node() -> None:
    node = Node(Config("east", 1, "shop", incarnation=0), 1_000)
    log = open_log(SimulatedDisk(), node.recover, salt=1, segment_bytes_max=1 << 16)
    node.start(log, 7, 1_000)
    meters = Meters()
    meters.checkpoint_failures = 2
    node.standing.loading = "not yet"
    node.context.about.commit, node.context.about.commit_date = "53236e983a8e", "2026-11-26"
    node.context.about.certificates = {"redis": 1_800_000_000}
    families = [
        *standing_families(node.context),
        *log_families(node, log, meters),
        *replication_families(node),
        *bulk_families(node, None),
        *event_families(),
    ]
    found = scraped(families)
    assert found.value("build_info", version=__version__, commit="53236e983a8e", commit_date="2026-11-26") == 1
    [labels] = found.labels("region_info")
    assert (labels["name"], labels["number"], labels["cluster_name"]) == ("east", "1", "shop")
    assert found.value("certificate_not_after_timestamp_seconds", port="redis") == 1_800_000_000
    assert (found.value("serving"), found.value("writable"), found.value("checkpoint_failures_total")) == (0, 1, 2)
    assert found.value("log_events_total", event="disk-full", level="warning") == log_counts["disk-full", "warning"]
    assert found.value("audit_differences_total") == found.value("inbox_batches") == 0
    assert found.value("log_size_bytes") >= 1 << 16


def test_a_data_directory_that_is_gone_has_no_space() -> None:
    assert list(disk_families("/nowhere/at/all")) == []
    assert scraped(disk_families("/")).value("data_free_bytes") > 0
