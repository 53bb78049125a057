"""The own origin of this process, and the other origins of its region as far as they are known.

Every start of a process creates a new origin, so no dot is ever used twice, whatever a power loss took and whichever
copy of a directory this is. The earlier origins of the same directory are its **lineage**; peers that lack their
effects are served from the log, as for any other origin.

The `count` of an origin is the number of origins that its region had before it, as far as this directory and its peers
know. It determines the residue of the strict IDs that the origin generates (core/values/entry_id.py), and nothing
else. If another origin of the region turns out to have the same residue, this origin takes the next one.

Origin numbers are drawn from a seed, because an origin may end while its process continues as another one. The runtime
sets another seed at each tick; otherwise a process whose memory was cloned would draw the same numbers as its twin.
"""

from __future__ import annotations

from typing import Final

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import origin_of, region_of
from crdtstream.core.values.entry_id import residue_of
from crdtstream.protocols import codec
from crdtstream.replication.log.turn import Turn
from crdtstream.replication.origins.facts import UNDESCRIBED, Addresses, RegionDescription, RegionFacts
from crdtstream.replication.origins.founding import Founding
from crdtstream.replication.values.bounds import BatchBounds
from crdtstream.settings.config import Config, ConfigError

SEED_MAX: Final = (1 << 64) - 1
LINEAGE_MAX: Final = 256


def check_region(config: Config, origin: int) -> None:
    """Raise ConfigError if an origin of the data directory is one of another region."""
    if region_of(origin) != config.region:
        raise ConfigError(
            f"the data directory {config.data} belongs to region {region_of(origin)}, not to region"
            f" {config.region}: give --region {region_of(origin)} or another --data"
        )


class Birth:
    """The own origin and its lineage, and of all origins that were heard of and may be at work their counts.

    `changes` grows with whatever is to be passed on.
    """

    __slots__ = (
        "_announced",
        "_config",
        "_replica",
        "_seed",
        "addresses",
        "bounds",
        "changes",
        "count",
        "counts",
        "formats",
        "founders",
        "founding",
        "lineage",
        "names",
        "reads_format",
        "stopped",
    )

    def __init__(self, config: Config, replica: Replica) -> None:
        self._config = config
        self._replica = replica
        self._seed = 0
        self.count = 0
        self.counts: dict[int, int] = {}
        self.lineage: list[int] = []
        self.founders: dict[int, None] = {}
        self.founding = Founding()
        self.changes = 0
        self.names: RegionFacts[str] = RegionFacts("")
        self.addresses: RegionFacts[Addresses] = RegionFacts(())
        self.formats: RegionFacts[int] = RegionFacts(0)
        # An attribute, because a simulated region may be one of the release before.
        self.reads_format: int = codec.FORMAT_VERSION
        # The log ends with the mark of a clean stop.
        self.stopped = False
        self._announced: Addresses = ()
        self.bounds = BatchBounds(config.region, config.limits, replica)

    @property
    def origin(self) -> int:
        """The own origin, which the replica keeps because effects are made under it; 0 until there is one."""
        return self._replica.applied.origin

    @property
    def needs_format(self) -> int:
        """The format of batches that one must read to read all that was applied here; 0 for the oldest."""
        return self._replica.applied.format_version

    # A life

    def recover(self, kind: int, payload: bytes) -> None:
        """A record of the log that is about origins."""
        if kind == codec.START:
            self._adopt(*codec.decode_start(payload))
        elif kind == codec.STOP:
            self.stopped = True
        elif kind == codec.FOUNDER:
            self.founders[codec.decode_founder(payload)] = None
        elif kind == codec.NAMED:
            self.names.record(*codec.decode_named(payload))
        elif kind == codec.ANNOUNCED:
            self.addresses.record(*codec.decode_announced(payload))
        elif kind == codec.NEEDED:
            self._replica.applied.raise_format(codec.decode_number(payload, "needed format"))
        elif kind == codec.READABLE:
            self.formats.record(*codec.decode_readable(payload))
        elif kind == codec.LIMITED:
            origin, count, batch_bytes_max = codec.decode_limited(payload)
            self._record(origin, count)
            self.bounds.record(origin, batch_bytes_max)

    def records(self) -> list[tuple[int, bytes]]:
        """Records that tell `recover` all that is known now, for a checkpoint. Founders that have ended
        are of no further use.
        """
        told = [(codec.FOUNDER, codec.encode_founder(origin)) for origin in self.founders_left()]
        told += [(codec.NAMED, codec.encode_named(*row)) for row in self.names.rows()]
        told += [(codec.ANNOUNCED, codec.encode_announced(*row)) for row in self.addresses.rows()]
        told += [(codec.READABLE, codec.encode_readable(*row)) for row in self.formats.rows()]
        for origin, batch_bytes_max in sorted(self.bounds.told.items()):
            if origin in self.counts:
                told.append((codec.LIMITED, codec.encode_limited(origin, self.counts[origin], batch_bytes_max)))
        if self.needs_format:
            told.append((codec.NEEDED, codec.encode_number(self.needs_format)))
        told += [(codec.START, codec.encode_start(origin, 0)) for origin in self.lineage]
        return [*told, (codec.START, codec.encode_start(self.origin, self.count))]

    def start(self, seed: int, turn: Turn) -> None:
        """After recovery."""
        self.reseed(seed)
        self.become_new(turn)

    def reseed(self, seed: int) -> None:
        """What is drawn from now on follows from this alone."""
        self._seed = seed & SEED_MAX

    def become_new(self, turn: Turn) -> None:
        """Another origin of this directory."""
        turn.cut()
        count = self._highest(self._config.region) + 1
        self._adopt(origin_of(self._config.region, self._draw()), count)
        self._replica.become(self.origin, residue_of(self._config.region, count))
        turn.add(codec.START, codec.encode_start(self.origin, count))

    def _adopt(self, origin: int, count: int) -> None:
        check_region(self._config, origin)
        if self.origin not in (0, origin):
            self.lineage.append(self.origin)
        self._replica.applied.origin, self.count, self.stopped = origin, count, False
        self._record(origin, count)

    def predecessors(self) -> list[int]:
        """Those of the lineage that have not ended, the newest last. What one of them did may come back from peers
        after it was lost here, so it is not known which of them left nothing; the newest are enough. Those that ended
        are the first to be forgotten, but for the newest that tells that this directory was in a cluster.
        """
        ended = self._replica.applied.members.is_evicted
        left = [origin for origin in self.lineage if not ended(origin)]
        at_work = [*filter(self._was_at_work, self.lineage)]
        kept = [*filter(ended, self.lineage), *left][-LINEAGE_MAX:]
        self.lineage = kept if not at_work or at_work[-1] in kept else [at_work[-1], *kept[1:]]
        return left[-LINEAGE_MAX:]

    def has_heard(self) -> bool:
        """True if a cluster is known, whether or not this directory was in it."""
        return bool(self._replica.applied.members.origins() or self.founders)

    def was_in_cluster(self) -> bool:
        """True if an origin of this directory was in a cluster, or has written and heard of one. A directory that has
        only heard of a cluster, or received its data, is as new as an empty one: nobody counts it, so the others may
        forget what it has not seen.
        """
        return any(map(self._was_at_work, [*self.lineage, self.origin]))

    def _was_at_work(self, origin: int) -> bool:
        """True if it was admitted, or has made effects beside Joins of itself."""
        members, made = self._replica.applied.members, self._replica.applied.vector.get(origin)
        is_member = origin in self.founders or members.was_admitted(origin)
        return is_member or (made > members.own_joins(origin) and self.has_heard())

    def _draw(self) -> int:
        """The seed itself, then what splitmix64 makes of it."""
        drawn = self._seed
        mixed = (drawn + 0x9E3779B97F4A7C15) & SEED_MAX
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & SEED_MAX
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & SEED_MAX
        self._seed = mixed ^ (mixed >> 31)
        return drawn

    # Counts and residues

    def _highest(self, region: int) -> int:
        """The highest count of that region's origins, -1 for none."""
        return max([count for origin, count in self.counts.items() if region_of(origin) == region], default=-1)

    def _record(self, origin: int, count: int) -> None:
        """Of a region's origins those that may be at work are kept, and one of the highest count."""
        if self.counts.get(origin) == count:
            return
        self.counts[origin] = count
        self.changes += 1
        ended = self._replica.applied.members.is_evicted
        for other in [other for other in self.counts if other != origin and region_of(other) == region_of(origin)]:
            if ended(other) and self.counts[other] <= count:
                del self.counts[other]

    def name_of(self, region: int) -> str:
        """Empty if it is not known."""
        return self._config.name if region == self._config.region else self.names.of(region)

    def announce(self, addresses: Addresses) -> None:
        """Others reach this region's listeners here."""
        self._announced = addresses
        self.changes += 1

    def addresses_of(self, region: int) -> Addresses:
        """Where a region's listeners are reached; empty if it announced nothing."""
        return self._announced if region == self._config.region else self.addresses.of(region)

    def format_of(self, region: int) -> int:
        """The highest format of batches that a region reads: if it did not say so, that of the release before."""
        return self.reads_format if region == self._config.region else self.formats.of(region) or codec.OLDEST_SENT

    def cannot_read(self, format_version: int, linked: list[int]) -> list[int]:
        """The regions of counted members, and of these linked origins, that do not read this format."""
        counted = self._replica.applied.members.counted(self.origin, self.founders_left())
        regions = sorted({region_of(origin) for origin in [*counted, *linked]})
        return [region for region in regions if self.format_of(region) < format_version]

    def description_with(self, origin: int) -> RegionDescription:
        """What is passed on with this origin of its region: addresses and format with its newest one."""
        region = region_of(origin)
        if origin == self.origin:
            return RegionDescription(self._config.name, self._announced, self.reads_format)
        count = self.counts.get(origin)
        addresses, formats = self.addresses.newest(region), self.formats.newest(region)
        return RegionDescription(
            self.name_of(region),
            addresses[1] if addresses[0] == count else (),
            formats[1] if formats[0] == count else 0,
        )

    def receive(
        self, origin: int, count: int, turn: Turn, batch_bytes_max: int = 0, described: RegionDescription = UNDESCRIBED
    ) -> None:
        """An origin has this count; where its residue is the own one's, the own one takes the next. It takes batches
        of so many bytes, and its region said this of itself, if that is told.
        """
        if origin == self.origin:
            return
        self._record(origin, count)
        if origin in self.counts and self.bounds.record(origin, batch_bytes_max):
            self._log_fact(turn, codec.LIMITED, codec.encode_limited(origin, count, batch_bytes_max))
        region = self._config.region
        if region_of(origin) != region:
            self._record_facts(region_of(origin), count, described, turn)
        if region_of(origin) == region and residue_of(region, count) == self._replica.residue:
            turn.cut()
            self.count = self._highest(region) + 1
            self._record(self.origin, self.count)
            self._replica.residue = residue_of(region, self.count)
            turn.add(codec.START, codec.encode_start(self.origin, self.count))

    def _record_facts(self, region: int, count: int, described: RegionDescription, turn: Turn) -> None:
        if self.names.record(region, count, described.name):
            self._log_fact(turn, codec.NAMED, codec.encode_named(region, count, described.name))
        if self.addresses.record(region, count, described.addresses):
            self._log_fact(turn, codec.ANNOUNCED, codec.encode_announced(region, count, described.addresses))
        if self.formats.record(region, count, described.format_version):
            self._log_fact(turn, codec.READABLE, codec.encode_readable(region, count, described.format_version))

    def _log_fact(self, turn: Turn, kind: int, payload: bytes) -> None:
        turn.cut()
        self.changes += 1
        turn.add(kind, payload)

    # Founders

    def found(self, origin: int, turn: Turn) -> None:
        """An origin is one of those that began the cluster."""
        if origin not in self.founders:
            turn.cut()
            self.founders[origin] = None
            self.changes += 1
            turn.add(codec.FOUNDER, codec.encode_founder(origin))

    def founders_left(self) -> list[int]:
        """Those that have not ended."""
        return [origin for origin in sorted(self.founders) if not self._replica.applied.members.is_evicted(origin)]
