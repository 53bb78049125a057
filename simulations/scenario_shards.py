"""The shards of a scenario, each of them a cluster, and the clients of its regions.

A client asks the shard that it asked last, and follows `MOVED` as cluster clients do. So a command with keys runs in
the shard that has them, and one without keys in the shard of the command before it. While a reply is to come from one
shard, it asks another.
"""

from __future__ import annotations

from collections import defaultdict

from crdtstream.scenarios.reply import ReplyError, read_replies
from crdtstream.scenarios.text import PLACE, Line, place_of
from simulations.cluster import Cluster, shard_address

# How many words of a step name regions, where not all of them do.
REGIONS_NAMED = {"clock": 0, "pass": 0, "skew": 1, "disk-loss": 1, "remembers": 1, "effects": 0}


class Shards:
    """All shards, under one time, and a client of each region."""

    def __init__(self, clusters: list[Cluster]) -> None:
        self.clusters = clusters
        self._asked: dict[int, int] = {}
        # By region: the shards in which its client waits.
        self._waits: dict[int, set[int]] = defaultdict(set)

    # Clients

    def execute(self, line: Line, argv: list[bytes]) -> bytes | None:
        """Return the reply, or None if the client must wait."""
        self._refuse(line, argv)
        if line.shard is not None:
            return self._ask(line.region, self._known(line), argv)
        asked = self._shard_to_ask(line.region)
        reply = self._ask(line.region, asked, argv)
        moved = self._moved_to(line.region, asked, reply)
        return reply if moved is None else self._ask(line.region, moved, argv)

    def _shard_to_ask(self, region: int) -> int:
        last = self._asked.get(region, 0)
        return min(range(len(self.clusters)), key=lambda shard: (shard in self._waits[region], shard != last))

    def _ask(self, region: int, shard: int, argv: list[bytes]) -> bytes | None:
        self._asked[region] = shard
        reply = self.clusters[shard].execute(region, argv)
        if reply is None:
            self._waits[region].add(shard)
        return reply

    def execute_turn(self, line: Line, commands: list[list[bytes]]) -> None:
        """Run several commands in one turn, which is one of one shard."""
        if line.shard is None and len(self.clusters) > 1:
            raise line.error(f"a turn is one of one shard: name it, as in `turn {line.region}.0`")
        for argv in commands:
            self._refuse(line, argv)
        shard = self._known(line)
        moved = self._moved_to(line.region, shard, self.clusters[shard].execute_turn(line.region, commands))
        if moved is not None:
            raise line.error(f"a key of this turn is in shard {moved}, not in {shard}: use keys with one hash tag")

    def pop_reply(self, line: Line) -> bytes | None:
        """Return what came for a command that had to wait, in the shard that is named or in any."""
        for shard in range(len(self.clusters)) if line.shard is None else [self._known(line)]:
            reply = self.clusters[shard].pop_reply(line.region)
            if reply is not None:
                self._waits[line.region].discard(shard)
                return reply
        return None

    def _moved_to(self, number: int, asked: int, replies: bytes | None) -> int | None:
        """Return the shard that the first of these replies with MOVED names."""
        region = self.clusters[asked].machines[number].config.region
        addresses = [shard_address(region, shard) for shard in range(len(self.clusters))]
        shards = {f"{address.host}:{address.port}": shard for shard, address in enumerate(addresses)}
        errors = [value.text.split() for value in read_replies(replies or b"") if isinstance(value, ReplyError)]
        return next((shards[words[2]] for words in errors if words[0] == "MOVED"), None)

    # Steps

    def named(self, line: Line) -> tuple[list[Cluster], list[int]]:
        """Return the clusters that a step concerns, and its numbers."""
        name, *words = line.step
        regions = REGIONS_NAMED.get(name, len(words))
        for at, word in enumerate(words):
            if at < regions and not PLACE.fullmatch(word):
                raise line.error(f"{word!r} of {name!r} is not a region, as 1, or a shard of it, as 1.0")
            if at >= regions and not word.isdecimal():
                raise line.error(f"{word!r} of {name!r} is not a number")
        places = [place_of(word) for word in words]
        shards = {shard for _, shard in places[:regions]}
        if len(shards) > 1:
            raise line.error(f"{name!r} is about one shard, or about all: {' and '.join(words)} are different ones")
        shard = next(iter(shards), None)
        clusters = self.clusters if shard is None else [self.clusters[self._known(line, shard)]]
        return clusters, [number for number, _ in places]

    def _known(self, line: Line, shard: int | None = None) -> int:
        """Return the shard that a line names, shard 0 if none."""
        found = line.shard or 0 if shard is None else shard
        if found >= len(self.clusters):
            raise line.error(f"there is no shard {found}: this scenario has `shards {len(self.clusters)}`")
        return found

    def _refuse(self, line: Line, argv: list[bytes]) -> None:
        if len(self.clusters) > 1 and argv[0].upper() == b"PUBLISH":
            raise line.error("no process carries PUBLISH to the other shards here: use SPUBLISH")

    def only(self, line: Line) -> Cluster:
        """Return the regions if they have one shard."""
        if len(self.clusters) > 1:
            raise line.error("a partitioned stream is in regions of one shard: leave out `shards`")
        return self.clusters[0]
