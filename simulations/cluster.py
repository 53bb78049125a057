"""A cluster of regions in one process that does what it is told, at once.

Nothing happens by itself: `execute` runs one command and its turn, `carry` delivers what one side of a link has to
send, `sync` delivers everything until all is quiet. Time is a number that the caller sets. Faults are what they are
called. A pair of regions has at most one connection, the last of which is its link, and both ends of it open and close
together.

With `checked` the checkers of these names watch the cluster, and clients and regions are heard for them. `check` runs
them after each step of a scenario, and `verify` runs one as at the end of a world.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from zlib import crc32

from crdtstream.connections.shards import ShardAddress, ShardMap, map_of
from crdtstream.protocols.hash_slots import shard_of
from crdtstream.region.node import Node
from crdtstream.settings.config import Config, Limits
from simulations.checkers import all_checkers
from simulations.checking import Sampled
from simulations.disk import SimulatedDisk
from simulations.machine import CLIENT, Machine
from simulations.network import Connection, Network, Pair
from simulations.settings import Settings

__all__ = ["CLIENT", "SEGMENT_BYTES", "Cluster"]

CLUSTER = "test"
PORT = 7000
ROUNDS_MAX = 10_000
SEGMENT_BYTES = 1 << 18
RESERVE_BYTES = 1 << 14
STARTS_APART = 1_000
STEP_MS = 100


class Cluster(Network):
    """Regions 1..n, and links between the given `pairs`, by default all; or the same shard of all of them.

    `fsync` is one policy for all regions, or one for each, and `limits` are those of all, or each region's.
    Regions have the numbers of their machines; a machine added later may be a second machine of a region (`twin`,
    `add`).
    """

    def __init__(
        self,
        regions: int,
        id_mode: str,
        fsync: str = "everysec",
        pairs: list[Pair] | None = None,
        limits: Limits | Mapping[int, Limits] | None = None,
        absent: tuple[int, ...] = (),
        checked: Sequence[str] = (),
        shard: int = 0,
        shards: int = 1,
    ) -> None:
        numbers = range(1, regions + 1)
        mesh = [(a, b) for a in numbers for b in numbers if a < b]
        settings = Settings(regions, "mesh", id_mode, 0, (), 0, 0)
        super().__init__(settings, 1, mesh if pairs is None else pairs)
        self.shard, self.shards = shard, shards
        self.keys = tuple(key for key in self.keys if shard_of(key, shards) == shard)
        self.checkers = {checker.name: checker for checker in all_checkers()} if checked else {}
        self.watching = [self.checkers[name] for name in checked]
        for checker in self.watching:
            self.watch(checker)
        policies = fsync.split()
        base = Config(name="", region=1, cluster=CLUSTER, id_mode=id_mode, fsync=policies[0], incarnation=0)
        if shards > 1:
            base = replace(base, shards=shards, shard=str(shard))
        for number in [number for number in numbers if number not in absent]:
            config = replace(
                base,
                name=f"region{number}",
                region=number,
                fsync=policies[min(number, len(policies)) - 1],
                limits=limits_of(limits, number),
            )
            self._place(number, config)
        self.links = {pair: Connection(0, pair) for pair in self.pairs}
        for pair in self.pairs:
            if not set(absent).intersection(pair):
                self.heal(*pair)

    def _place(self, number: int, config: Config, disk: SimulatedDisk | None = None) -> None:
        """Start a machine, which is one of a world where checkers watch. A second one of a region counts its starts
        from another number, so that its origins differ.
        """
        starts = 0 if number == config.region else STARTS_APART * number
        oracle = self.oracle if self.watching else None
        self.machines[number] = Machine(
            config,
            self.now_ms,
            disk,
            starts,
            number=number,
            oracle=oracle,
            busy=bool(self.watching),
            shards=self._map_for(config.region),
        )

    def _map_for(self, region: int) -> ShardMap | None:
        """The shards of a region as this one knows them; None if it has one."""
        if self.shards == 1:
            return None
        addresses = [shard_address(region, shard) for shard in range(self.shards)]
        return map_of(CLUSTER, region, self.shard, addresses, epoch=1)

    def add(self, number: int, peer: int, region: int = 0) -> None:
        """Start an absent machine with an empty disk, as the region of its number or of `region`; it waits until this
        peer admits it.
        """
        peers = (f"region{peer}:1",)
        known = self.machines[peer].config
        config = replace(known, name=f"region{number}", region=region or number, incarnation=None, peers=peers)
        self._place(number, config)
        self._join_pairs(number)
        self.node(number).peer_met(peers[0], peer)
        self.heal(number, peer)

    def clone(self, number: int, original: int) -> None:
        """Continue with a copy of the memory and disk of that process as a second process, without links."""
        cloned = self.machines[number] = self.machines[original].cloned()
        cloned.node.reseed(crc32(b"%d %d" % (number, self.now_ms)))
        for connection in self.connections_of(original):
            cloned.node.link_closed(connection.number, "the process was cloned", self.now_ms)
        self._join_pairs(number)

    def twin(self, number: int, original: int) -> None:
        """Start a second machine on the copy of that machine's disk, with the same settings and without links."""
        copied = self.machines[original].copied
        assert copied is not None
        self._place(number, self.machines[original].config, copied.copy())
        self._join_pairs(number)

    def _join_pairs(self, number: int) -> None:
        pairs = [(min(number, other), max(number, other)) for other in self.machines if other != number]
        if not any(number in pair for pair in self.pairs):
            self.pairs += pairs
            self.links |= {pair: Connection(0, pair) for pair in pairs}

    def node(self, number: int) -> Node:
        return self.machines[number].node

    def link(self, a: int, b: int) -> Connection:
        return self.links[(min(a, b), max(a, b))]

    # Commands

    def pop_reply(self, number: int) -> bytes | None:
        """Return replies that arrived for commands that had to wait."""
        return self.drain_replies(number, CLIENT)

    def execute_turn(self, number: int, commands: list[list[bytes]]) -> bytes | None:
        """Run several commands in one turn; return their replies together."""
        for argv in commands:
            self.command(number, CLIENT, argv)
        self.turn(number)
        return self.pop_reply(number)

    def command(self, number: int, client_id: int, argv: list[bytes]) -> None:
        """Let a client send a command, which may be malformed if no checker looks at replies."""
        if self.watching:
            super().command(number, client_id, argv)
        else:
            self.node(number).execute(client_id, argv, self.clock_ms(number))

    # Links

    def cut(self, a: int, b: int, reason: str = "cut") -> None:
        link = self.link(a, b)
        for number in link.ends:
            link.flows[number].flying.clear()
            self.close_end(link, number, reason)

    def heal(self, a: int, b: int) -> None:
        """Open the link and deliver both Hellos."""
        if not self.link(a, b).open:
            pair = (min(a, b), max(a, b))
            link = self.links[pair] = self.connect(pair)
            greeted = [link.other(number) for number in pair if self.send_next(link, number)]
            for number in greeted:
                self.receive_next(link, number)

    def carry_one(self, sender: int, receiver: int) -> bool:
        """Deliver one message; False if there is none, or the link is cut."""
        return self.arrive(sender, receiver) or (self.send(sender, receiver) and self.arrive(sender, receiver))

    def send(self, sender: int, receiver: int) -> bool:
        """Send one message, which will arrive before any sent later. False if there is none in flight, or the link is
        cut.
        """
        link = self.link(sender, receiver)
        if link.open:
            self.send_next(link, sender)
            self._obey_verdicts(link)
        return bool(link.flows[receiver].flying)

    def arrive(self, sender: int, receiver: int) -> bool:
        """Deliver the oldest message in flight; False if there is none."""
        link = self.link(sender, receiver)
        if not link.flows[receiver].flying:
            return False
        self.receive_next(link, receiver)
        self._obey_verdicts(link)
        return True

    def _obey_verdicts(self, link: Connection) -> None:
        reasons = [self.node(number).link_verdict(link.number) for number in link.ends]
        reason = next((reason for reason in reasons if reason is not None), None)
        if reason is not None:
            self.cut(*link.ends, reason=reason)

    def carry(self, sender: int, receiver: int) -> None:
        """Deliver everything that one side has to send, and nothing back."""
        for _ in range(ROUNDS_MAX):
            if not self.carry_one(sender, receiver):
                return
        raise AssertionError(f"region {sender} never stops sending to region {receiver}")

    def sync(self, *between: int) -> None:
        """Deliver everything until nothing is left to send, or everything between two regions."""
        for _ in range(ROUNDS_MAX):
            moved = False
            for a, b in [between] if between else self.pairs:
                moved = self.carry_one(a, b) or moved
                moved = self.carry_one(b, a) or moved
            if not moved:
                return
        raise AssertionError("the cluster never becomes quiet")

    # Faults

    def restart(self, number: int, fault: str = "kill") -> None:
        """Restart the region's process from its disk and reopen its links."""
        self._begin(number, self._end(number, fault))

    def _end(self, number: int, fault: str) -> list[Pair]:
        """End a process, which its peers notice at once; return the pairs whose link it had."""
        self._look()
        self.stopping(number, fault)
        pairs = [pair for pair, link in self.links.items() if number in link.joined]
        for pair in pairs:
            self.cut(*pair, reason="the peer restarted")
        return pairs

    def _begin(self, number: int, pairs: list[Pair]) -> None:
        self.machines[number].start(self.clock_ms(number))
        self.started(number)
        self.turn(number)
        for pair in pairs:
            self.heal(*pair)

    def stop(self, number: int) -> None:
        """Stop the process cleanly and remove the machine."""
        self._look()
        for pair in [pair for pair in self.pairs if number in pair]:
            self.cut(*pair, reason="the peer stopped")
        self.stopping(number, "kill")
        self.machines.pop(number).stop()

    def copy(self, number: int) -> None:
        self.machines[number].keep_copy()

    def put_back(self, number: int) -> None:
        """Restart the region from the kept copy; what was done since the copy may be lost everywhere."""
        pairs = self._end(number, "disk-loss")
        self.machines[number].put_back()
        self._begin(number, pairs)

    def lose_disk(self, number: int, incarnation: int) -> None:
        pairs = self._end(number, "disk-loss")
        machine = self.machines[number]
        machine.config = replace(machine.config, incarnation=incarnation)
        machine.lose_disk()
        self._begin(number, pairs)

    def lose_power(self, number: int, rng: random.Random, odds: float | None = None) -> None:
        """Lose power; `odds` is the chance of each unsynced page to survive, drawn if None."""
        pairs = self._end(number, "power")
        self.machines[number].disk.crash(rng, odds)
        self._begin(number, pairs)

    # Time

    def tick(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        for number in self.machines:
            self.tick_one(number)

    def live(self, milliseconds: int) -> None:
        """Let everything continue for this long: time, messages, and syncs of the logs."""
        end_ms = self.now_ms + milliseconds
        while self.now_ms < end_ms:
            self.tick(min(STEP_MS, end_ms - self.now_ms))
            for machine in self.machines.values():
                machine.sync()
            self.sync()

    def next_event(self, bound_ms: int) -> None:
        self.live(STEP_MS)

    # Checks

    def check(self) -> None:
        """Check every structure, or what the watching checkers look at: `check invariants` is one of them."""
        if self.watching:
            self._look()
        else:
            for machine in self.machines.values():
                machine.node.check()

    def _look(self) -> None:
        for checker in [checker for checker in self.watching if isinstance(checker, Sampled)]:
            for number in self.machines:
                checker.look(self, number)

    def verify(self, name: str) -> None:
        """Run a checker as at the end of a run."""
        self._look()
        self.checkers[name].at_end(self)


def shard_address(region: int, shard: int) -> ShardAddress:
    """Where clients reach a shard, on machines that are only simulated."""
    return ShardAddress(f"region{region}-shard{shard}", PORT, 0)


def limits_of(limits: Limits | Mapping[int, Limits] | None, number: int) -> Limits:
    """The limits of this region."""
    found = limits if limits is None or isinstance(limits, Limits) else limits.get(number)
    return found or Limits(segment_bytes_max=SEGMENT_BYTES, disk_reserve_bytes=RESERVE_BYTES)
