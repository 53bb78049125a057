"""The settings of a run, drawn from the seed unless they are given.

A default world is short in time and eventful: a similar number of commands whatever the number of regions, a fault
every few hundred milliseconds of virtual time, and timeouts and files so small that all of them matter.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from crdtstream.core.values.entry_id import ID_MODES, STRICT
from crdtstream.settings.config import Limits
from simulations.draw import Draw
from simulations.workload import PROFILES

TOPOLOGIES = ("mesh", "ring", "line", "hub")
REGIONS = (2, 2, 2, 3, 3, 3, 3, 3, 4, 4, 5, 6, 7)

FAULTS_OF_LINKS = ("cut", "clog", "slow", "double")
FAULTS_OF_MACHINES = (
    "kill",
    "power",
    "torn",
    "disk-error",
    "rot",
    "disk-loss",
    "disk-full",
    "pause",
    "clock",
    "evict",
    "put-back",
)
FAULTS = (*FAULTS_OF_LINKS, *FAULTS_OF_MACHINES)
ODDS = {"evict": 0.3, "put-back": 0.3}
LATE_ODDS = 0.2
TWIN_ODDS = 0.15
COPY = "copy"
NEWCOMER = "newcomer"
SHORT_LOGS_ODDS = 0.3
RESERVE_BYTES = 1 << 14
YIELD_MS = 5_000
LARGE_VOLUMES = 3
# The sources of what only some worlds have: those that settings leave open are drawn from them. What a source draws
# depends on its name: "cold" is packing's, because another name would change every world.
PARTITIONED, PACKING, BOUNDS, REFERENCES, VOLUMES = "partitioned", "cold", "bounds", "references", "volumes"
SERVING_AT_ONCE, FLAPPING, MEMORY, PROPERTIES = "serves at once", "flapping", "memory", "properties"
RETENTION, NAMES, LETTERS = "retention", "names", "letters"
DELIVERING, SPILLING, SHARDED = "delivering", "spilling", "sharded"
# Setting -> its source, and how many worlds have it.
EXTRAS: Final[Mapping[str, tuple[str, float]]] = {
    "partitioned": (PARTITIONED, 0.25),
    "serving_at_once": (SERVING_AT_ONCE, 0.2),
    "packing": (PACKING, 0.5),
    "bounded": (BOUNDS, 0.25),
    "references": (REFERENCES, 0.2),
    "small_volumes": (VOLUMES, 0.25),
    "flapping": (FLAPPING, 0.2),
    "short_memory": (MEMORY, 0.25),
    "properties": (PROPERTIES, 0.3),
    "retention": (RETENTION, 0.35),
    # Of the worlds with properties.
    "delivering": (DELIVERING, 0.5),
    "named": (NAMES, 0.6),
    "letters": (LETTERS, 0.7),
    "spilling": (SPILLING, 0.5),
    "sharded": (SHARDED, 0.1),
}


@dataclass(frozen=True)
class Settings:
    """The settings of a run; `profile` names what the clients do most. With `late` the last region joins while the
    others are running. A `twin` is an additional process with the number of region 1, on a copy of its disk or an empty
    one. A `log_retention_bytes` of 0 keeps everything that members need.

    What only some worlds have is drawn where it is None: a partitioned stream beside the others; regions that serve
    before they have met a peer; blocks that are packed soon; small bounds that differ by region; removals that say what
    happens to references; volumes that may be too small for the log that peers need; clients that set properties of
    groups, and in some of these worlds limits of streams, names of adds, dead letters, or that also say which region
    delivers, move groups and reset them; blocks that are spilled; several shards in each region, of which a
    `World` is one; links that flap, and memory that fills, which are faults.
    """

    regions: int
    topology: str
    id_mode: str
    duration_ms: int
    faults: tuple[str, ...]
    fault_interval_ms: int
    command_interval_ms: int
    profile: str = "mixed"
    turn_commands_max: int = 1
    pull_ms: int = 2
    checkpoint_interval_ms: int = 0
    keeper: int = 1
    late: bool = False
    log_retention_bytes: int = 0
    twin: str = ""
    partitioned: bool | None = False
    serving_at_once: bool | None = None
    packing: bool | None = None
    bounded: bool | None = None
    references: bool | None = None
    small_volumes: bool | None = None
    flapping: bool | None = None
    short_memory: bool | None = None
    properties: bool | None = None
    delivering: bool | None = None
    retention: bool | None = None
    named: bool | None = None
    letters: bool | None = None
    spilling: bool | None = False
    sharded: bool | None = False

    @property
    def has_limits(self) -> bool:
        """True if streams have limits. Worlds without properties of groups are what they were before there were any of
        streams.
        """
        return bool(self.retention and self.properties)

    @property
    def has_names(self) -> bool:
        """True if clients name their adds: where groups have properties, each region delivers, and nothing but clients
        removes entries.
        """
        return bool(self.named and self.properties and not self.retention and not self.delivering)

    @property
    def has_letters(self) -> bool:
        """True if groups have dead letters: where groups have properties and nothing else is set."""
        others = self.retention or self.delivering or self.named
        return bool(self.letters and self.properties and not others)

    @property
    def has_named_entries(self) -> bool:
        """True if clients name their adds, or the store names what it brings back from dead letters."""
        return self.has_names or self.has_letters

    def spares(self, number: int) -> bool:
        """Return whether this region must be spared: with evictions, one region is never evicted and loses nothing, so
        that one remains that can admit others.
        """
        return "evict" in self.faults and number == self.keeper


def draw_settings(rng: Random, duration_ms: int = 3_000) -> Settings:
    """Draw the default world: mostly two or three regions, mostly strict, about half of the faults. Some regions join
    late, and some logs are so short that peers fall behind them.
    """
    regions = rng.choice(REGIONS)
    commands = rng.choice([60, 120, 180])
    faults = tuple(fault for fault in FAULTS if rng.random() < ODDS.get(fault, 0.5))
    short_logs = rng.random() < SHORT_LOGS_ODDS
    return Settings(
        regions=regions,
        topology=rng.choice(TOPOLOGIES),
        id_mode=rng.choice([STRICT, STRICT, *ID_MODES]),
        duration_ms=duration_ms,
        faults=faults,
        fault_interval_ms=rng.choice([150, 300, 600]),
        command_interval_ms=max(4, duration_ms * regions // commands),
        profile=rng.choice(sorted(PROFILES)),
        turn_commands_max=rng.choice([1, 3, 6]),
        pull_ms=rng.choice([2, 5, 20]),
        checkpoint_interval_ms=rng.choice([100, 300] if short_logs else [0, 300, 1000]),
        keeper=rng.randrange(1, regions),
        late=rng.random() < LATE_ODDS,
        log_retention_bytes=rng.choice([1, 1 << 12, 1 << 13]) if short_logs else 0,
        twin=rng.choice([COPY, COPY, NEWCOMER]) if rng.random() < TWIN_ODDS else "",
        partitioned=None,
        spilling=None,
        sharded=None,
    )


def decided(settings: Settings, **said: bool | None) -> Settings:
    """Return these settings with what is said in place of what they say; None leaves it to them."""
    found: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    return replace(settings, **found)


def complete(settings: Settings, draw: Draw) -> Settings:
    """Draw what the settings leave open. Each source is asked first whether its part is there, whatever they say."""
    found: dict[str, Any] = {name: draw.of(part).random() < odds for name, (part, odds) in EXTRAS.items()}
    found["flapping"] = found["flapping"] and bool(settings.faults)
    found["short_memory"] = found["short_memory"] and bool(settings.faults) and not settings.twin
    drawn = replace(settings, **{name: value for name, value in found.items() if getattr(settings, name) is None})
    return drawn if drawn.properties else replace(drawn, delivering=False)


def draw_limits(rng: Random, log_retention_bytes: int = 0) -> Limits:
    """Draw the limits of one region; regions may differ in most of them."""
    message_bytes, window_bytes = rng.choice([256, 1024, 4096]), rng.choice([512, 4096, 1 << 14])
    return Limits(
        message_bytes=message_bytes,
        message_bytes_max=8192,
        window_bytes=window_bytes,
        # No draw of its own, which would change every seed's world.
        window_messages={512: 1, 4096: 8}.get(window_bytes, 256),
        # Below what the windows of several peers add up to, so that some of what waits is dropped.
        inbox_bytes_max=2 * window_bytes,
        segment_bytes_max=1 << 12 if log_retention_bytes else rng.choice([1 << 12, 1 << 13, 1 << 16]),
        heartbeat_ms=rng.choice([200, 300]),
        peer_timeout_ms=1_000,
        expiry_takeover_ms=500,
        disk_reserve_bytes=RESERVE_BYTES,
        log_retention_bytes=log_retention_bytes,
        log_yield_ms=YIELD_MS,
        transfer_keep_ms=rng.choice([300, 60_000]),
        memory_bytes_max=1 << 40,
        deleted_streams_max=1,
    )


def draw_volume(rng: Random) -> int | None:
    """Draw the size of a volume that may be too small for the log that peers need; None for one that never fills up.
    Each takes a state transfer: what there was, the transfer in the log, and the checkpoint after it.
    """
    return rng.choice([None, 288 << 10, 384 << 10])


def enlarged(volume_bytes: int | None) -> int | None:
    """Return the size of a volume of a world with large entries: a whole state has to fit beside what is there, or a
    region rightly gives its transfer up again and again. Each turn asks for 4 KiB of room, so that segments of 4 KiB
    stay half empty, and the staged chunks take three times their size.
    """
    return None if volume_bytes is None else LARGE_VOLUMES * volume_bytes


def draw_forwarding(rng: Random, limits: Limits) -> Limits:
    """Draw how long a region waits for the home of a partitioned stream."""
    return replace(limits, forward_timeout_ms=rng.choice([100, 1_000]), takeover_ms=rng.choice([0, 300, 2_000]))


def draw_bounds(rng: Random, limits: Limits) -> Limits:
    """Draw how large the messages and batches are that a region accepts; others may accept larger ones."""
    message_bytes_max = rng.choice([1 << 12, 1 << 14])
    return replace(
        limits,
        message_bytes=min(limits.message_bytes, message_bytes_max // 4),
        message_bytes_max=message_bytes_max,
        batch_bytes_max=rng.choice([6 << 10, 12 << 10, 2 << 30]),
    )


def draw_intervals(rng: Random, limits: Limits) -> Limits:
    """Draw how many acknowledged intervals of a writer a region tells, in groups that acknowledge exactly."""
    return replace(limits, exact_intervals_max=rng.choice([2, 4, 1_000, 1_000]))


def draw_packing(rng: Random, limits: Limits) -> Limits:
    """Draw how soon unread blocks are packed, and how many bytes of packed blocks may be open."""
    return replace(
        limits, cold_after_ms=rng.choice([1, 50, 400]), open_blocks_bytes_max=rng.choice([0, 2_000, 1 << 20])
    )


def draw_spilling(rng: Random, limits: Limits) -> Limits:
    """Draw how many bytes of blocks stay in memory; of those that were opened hardly any, so that files are read."""
    return replace(limits, hot_bytes_max=rng.choice([1, 400, 2_000]), open_blocks_bytes_max=rng.choice([0, 0, 2_000]))


def pairs_of(topology: str, regions: int) -> list[tuple[int, int]]:
    numbers = range(1, regions + 1)
    if topology == "mesh":
        return [(a, b) for a in numbers for b in numbers if a < b]
    if topology == "hub":
        return [(1, number) for number in numbers if number > 1]
    line = [(number, number + 1) for number in range(1, regions)]
    return line if topology == "line" or regions < 3 else [*line, (1, regions)]
