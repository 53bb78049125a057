"""How much rows process: the amounts of a full run times one factor, but never less than a row needs.

The figures are rates, so a smaller scale is only noisier.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Scale:
    repetitions: int
    appends: dict[int, int]  # depth -> XADDs
    memory_entries: dict[str, int]  # shape -> entries
    read_entries: int
    bulk_entries: int
    range_pages: int
    replicated_entries: int
    missed_entries: int
    recovered_entries: int
    stall_entries: int
    planned_entries: int
    scanned_keys: int
    ranged_entries: int
    dead_keys: int
    digested_entries: int
    started_entries: int
    spark_rows: int
    spark_streams: int
    blocked_clients: int
    gateway_messages: int
    kept_entries: int
    small_streams: int
    consumed_entries: int
    tail_reads: int
    longest_entries: int
    cold_entries: int
    cold_reads: int
    short_rounds: int
    lag_s: float
    stall_s: float
    scan_s: float
    idle_s: float


def scale_of(factor: float, repetitions: int = 1) -> Scale:
    """Return the scale of this factor; that of a full run is 1."""

    def count(full: int, least: int) -> int:
        return max(least, round(full * factor))

    def seconds(full: float, least: float) -> float:
        return max(least, full * factor)

    return Scale(
        repetitions=repetitions,
        appends={1: count(100_000, 500), 16: count(500_000, 1_000), 128: count(1_000_000, 2_000)},
        memory_entries={
            "16-byte": count(1_000_000, 2_000),
            "sensor": count(500_000, 2_000),
            "1-KiB": count(100_000, 2_000),
        },
        read_entries=count(480_000, 4_800),
        bulk_entries=count(2_000_000, 20_000),
        range_pages=count(60_000, 480),
        replicated_entries=count(1_000_000, 2_000),
        missed_entries=count(1_000_000, 2_000),
        recovered_entries=count(5_000_000, 2_000),
        stall_entries=count(2_000_000, 2_000),
        planned_entries=count(1_000_000, 2_000),
        scanned_keys=count(200_000, 2_000),
        ranged_entries=count(100_000, 1_000),
        dead_keys=count(322_000, 2_000),
        digested_entries=count(1_000_000, 2_000),
        started_entries=count(200_000, 2_000),
        spark_rows=count(1_000_000, 2_000),
        spark_streams=count(10_000, 200),
        blocked_clients=count(10_000, 100),
        gateway_messages=count(50_000, 500),
        kept_entries=count(100_000, 2_000),
        small_streams=count(100_000, 500),
        consumed_entries=count(100_000, 500),
        tail_reads=count(20_000, 40),
        longest_entries=count(10_000_000, 1_000),
        cold_entries=count(500_000, 10_000),
        cold_reads=count(10_000, 200),
        short_rounds=count(300, 4),
        lag_s=seconds(20.0, 0.5),
        stall_s=seconds(10.0, 0.5),
        scan_s=seconds(10.0, 0.5),
        idle_s=seconds(5.0, 0.2),
    )


FULL = scale_of(1.0, repetitions=3)
QUICK = scale_of(0.1)
SMALLEST = scale_of(0.0)
# Under valgrind: at least ten rounds of 50 connections, so that what happens once weighs little.
COUNTED = replace(
    SMALLEST,
    appends={1: 2_000, 16: 16_000, 128: 64_000},
    read_entries=48_000,
    range_pages=480,
    consumed_entries=2_000,
)
