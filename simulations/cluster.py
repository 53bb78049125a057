"""A cluster of regions in one process: production nodes and logs on simulated disks, with links that the test moves.

Nothing happens by itself: `execute` runs one command and its turn, `carry` delivers what one side of a link has to
send, `sync` delivers everything until all is quiet. Time is a number that the caller sets. Messages are serialised and
parsed again, as on the wire.
"""

from __future__ import annotations

import copy
import random
import threading
from dataclasses import replace
from zlib import crc32

from crdtstream.config import ALWAYS, Config, Limits
from crdtstream.node import Node, Ready
from crdtstream.protocols import codec
from crdtstream.replication.wire_pb2 import Message
from crdtstream.storage.log import Log
from crdtstream.storage.restore import open_storage
from simulations.disk import SimulatedDisk

CLIENT = 1
ROUNDS_MAX = 10_000
SEGMENT_BYTES = 1 << 18
SALT = 0x5EED
STARTS_APART = 1_000


class Region:
    """One region: its node, and the log and disk that outlive it. A second machine of one region counts its starts from
    another number, so that its origins differ.
    """

    def __init__(self, config: Config, now_ms: int, disk: SimulatedDisk | None = None, starts: int = 0) -> None:
        self.config = config
        self.disk = disk or SimulatedDisk()
        self.starts = starts
        self.sync_policy = config.fsync == ALWAYS
        self.start(now_ms)

    def start(self, now_ms: int) -> None:
        """Recover from the disk, as a new process does."""
        self.starts += 1
        self.node = Node(self.config, now_ms)
        self.log: Log
        self.log, self.checkpointer = open_storage(
            self.disk, self.node, salt=SALT, segment_bytes_max=self.config.limits.segment_bytes_max
        )
        self.node.start(self.log, self.seed(), now_ms)
        self.replies: dict[int, list[bytes]] = {}
        self.perform()
        self.sync()
        self.connect(CLIENT, now_ms)

    def seed(self) -> int:
        """Return the seed of the next origin: the first origin of a region is its number, and each start adds 256."""
        return self.starts - 1

    def connect(self, client_id: int, now_ms: int) -> None:
        self.node.connect(client_id, "127.0.0.1:0", now_ms)

    def cloned(self) -> Region:
        """Clone the running process, as a snapshot of a virtual machine does; a generator cannot be copied and starts
        again.
        """
        audit, tree = self.node.exchange.audit, self.node.exchange.audit.tree
        audit.tree = None
        cloned = copy.deepcopy(self, self.not_cloned())
        audit.tree = tree
        return cloned

    def not_cloned(self) -> dict[int, object]:
        """Return objects that cannot be copied or are not part of the process, with their replacements."""
        return {id(self.log.sync_lock): threading.Lock()}

    def perform(self) -> None:
        """Perform what the node asks for until it asks for nothing."""
        ready = self.node.ready()
        while ready is not None:
            self._perform_one(ready)
            if (ready.urgent or self.sync_policy) and self.log.synced_position < self.log.last_position:
                self.node.synced(self.log.sync())
            ready = self.node.ready()

    def _perform_one(self, ready: Ready) -> None:
        if ready.records:
            self.log.append(ready.records)
        for client_id, reply in ready.replies:
            self.replies.setdefault(client_id, []).append(reply)
        for client_id in ready.closing:
            self.node.disconnect(client_id)

    def sync(self) -> None:
        """Sync the log, as `everysec` does each second."""
        self.node.synced(self.log.sync())
        self.perform()

    def execute(self, argv: list[bytes], now_ms: int, client_id: int = CLIENT) -> bytes | None:
        """Run a command; return its reply, or None if the client must wait."""
        self.node.execute(client_id, argv, now_ms)
        self.perform()
        return self.take_reply(client_id)

    def take_reply(self, client_id: int = CLIENT) -> bytes | None:
        replies = self.replies.pop(client_id, [])
        return b"".join(replies) if replies else None

    def checkpoint_step(self, units: int) -> bool:
        """Continue a checkpoint, or begin one if that is possible now; True if none is running afterwards."""
        self.perform()
        checkpointer = self.checkpointer
        capture = checkpointer.capture
        if capture is None and not self.node.can_describe():
            return True
        if capture is None:
            self.node.context.saving.begin()
            capture = checkpointer.begin()
        capture.step(units)
        checkpointer.write(capture.take_output())
        if not capture.done:
            return False
        checkpointer.commit(self.node.context.now_ms)
        self.node.synced(self.log.synced_position)
        self.log.delete(checkpointer.conclude())
        checkpointer.clean()
        self.node.checkpoint_ended(self.node.context.now_ms, "")
        self.perform()
        return True

    def checkpoint(self) -> None:
        while not self.checkpoint_step(1_000):
            pass

    def cut_log(self) -> None:
        """Keep no more of the log than a restart needs, even if peers need the rest; keep all of it while a state
        arrives.
        """
        if not self.node.can_describe():
            return
        self.log.has_room(self.config.limits.segment_bytes_max)
        self.node.turn.add(codec.START, codec.encode_start(self.node.birth.origin, self.node.birth.count))
        self.perform()
        self.checkpoint()
        self.sync()
        self.log.truncate_before(self.log.last_position)

    def stop(self) -> None:
        """Stop cleanly."""
        self._perform_one(self.node.stop())
        self.log.sync()

    def lose_power(self, rng: random.Random, odds: float | None) -> None:
        """Lose power: unsynced writes may be gone."""
        self.disk.crash(rng, odds)

    def lose_disk(self) -> None:
        self.disk = SimulatedDisk()


class Link:
    """A link between two regions: open or cut, with the messages that each end has sent and that have not arrived."""

    def __init__(self, number: int, low: int, high: int) -> None:
        self.number = number
        self.ends = (low, high)
        self.open = False
        self.flying: dict[int, list[Message]] = {low: [], high: []}


class Cluster:
    """Regions 1..n, and links between the given `pairs`, by default all.

    `fsync` is one policy for all regions, or one for each. Regions have the numbers of their machines; a machine added
    later may be a second machine of a region (`twin`, `add`).
    """

    def __init__(
        self,
        regions: int,
        id_mode: str,
        fsync: str = "everysec",
        pairs: list[tuple[int, int]] | None = None,
        limits: Limits | None = None,
        absent: tuple[int, ...] = (),
    ) -> None:
        self.now_ms = 1
        numbers = range(1, regions + 1)
        self.pairs = pairs if pairs is not None else [(a, b) for a in numbers for b in numbers if a < b]
        policies = fsync.split()
        base = Config(name="", region=1, cluster="test", id_mode=id_mode, fsync=policies[0], incarnation=0)
        self.regions: dict[int, Region] = {}
        self.copies: dict[int, SimulatedDisk] = {}
        for number in numbers:
            config = replace(
                base,
                name=f"region{number}",
                region=number,
                fsync=policies[min(number, len(policies)) - 1],
                limits=limits or Limits(segment_bytes_max=SEGMENT_BYTES),
            )
            if number not in absent:
                self.regions[number] = self.region(number, config)
        self.links = {pair: Link(index + 1, *pair) for index, pair in enumerate(self.pairs)}
        for pair in self.pairs:
            if not set(absent).intersection(pair):
                self.heal(*pair)

    def region(self, number: int, config: Config, disk: SimulatedDisk | None = None) -> Region:
        return Region(config, self.now_ms, disk, starts_of(number, config))

    def add(self, number: int, peer: int, region: int = 0) -> None:
        """Start an absent machine with an empty disk, as the region of its number or of `region`; it waits until this
        peer admits it.
        """
        peers = (f"region{peer}:1",)
        known = self.regions[peer].config
        config = replace(known, name=f"region{number}", region=region or number, incarnation=None, peers=peers)
        self._place(number, config, None)
        self.node(number).peer_met(peers[0], peer)
        self.heal(number, peer)

    def clone(self, number: int, original: int) -> None:
        """Continue with a copy of the memory and disk of that process as a second process, without links."""
        cloned = self.regions[number] = self.regions[original].cloned()
        cloned.node.reseed(crc32(b"%d %d" % (number, self.now_ms)))
        for link in [link for link in self.links.values() if original in link.ends and link.open]:
            cloned.node.link_closed(link.number, "the process was cloned", self.now_ms)
        self._join_pairs(number)

    def twin(self, number: int, original: int) -> None:
        """Start a second machine on the copy of that machine's disk, with the same settings and without links."""
        self._place(number, self.regions[original].config, self.copies[original].copy())

    def _place(self, number: int, config: Config, disk: SimulatedDisk | None) -> None:
        self.regions[number] = self.region(number, config, disk)
        self._join_pairs(number)

    def _join_pairs(self, number: int) -> None:
        pairs = [(min(number, other), max(number, other)) for other in self.regions if other != number]
        if not any(number in pair for pair in self.pairs):
            self.pairs += pairs
            self.links |= {pair: Link(len(self.links) + index, *pair) for index, pair in enumerate(pairs, 1)}

    def node(self, number: int) -> Node:
        return self.regions[number].node

    def link(self, a: int, b: int) -> Link:
        return self.links[(min(a, b), max(a, b))]

    def execute(self, number: int, argv: list[bytes], client_id: int = CLIENT) -> bytes | None:
        return self.regions[number].execute(argv, self.now_ms, client_id)

    def take_reply(self, number: int) -> bytes | None:
        """Return replies that arrived for commands that had to wait."""
        return self.regions[number].take_reply()

    def execute_turn(self, number: int, commands: list[list[bytes]]) -> bytes | None:
        """Run several commands in one turn; return their replies together."""
        region = self.regions[number]
        for argv in commands:
            region.node.execute(CLIENT, argv, self.now_ms)
        region.perform()
        return region.take_reply()

    # Links

    def cut(self, a: int, b: int, reason: str = "cut") -> None:
        link = self.link(a, b)
        if link.open:
            link.open = False
            for number in link.ends:
                link.flying[number].clear()
                self.node(number).link_closed(link.number, reason, self.now_ms)
                self.regions[number].perform()

    def heal(self, a: int, b: int) -> None:
        """Open the link and deliver both Hellos."""
        link = self.link(a, b)
        if not link.open:
            link.open = True
            for index, number in enumerate(link.ends):
                self.node(number).link_opened(link.number, index == 0, self.now_ms)
            greetings = [(n, self.node(n).outgoing(link.number, 1 << 20, self.now_ms)) for n in link.ends]
            for number, greeting in greetings:
                if greeting is not None:
                    self._deliver(link, number, greeting)

    def _other(self, link: Link, number: int) -> int:
        return link.ends[1] if number == link.ends[0] else link.ends[0]

    def _deliver(self, link: Link, sender: int, message: Message) -> None:
        receiver = self._other(link, sender)
        self.node(receiver).receive(link.number, Message.FromString(message.SerializeToString()), self.now_ms)
        self.regions[receiver].perform()

    def carry_one(self, sender: int, receiver: int) -> bool:
        """Deliver one message; False if there is none, or the link is cut."""
        return self.arrive(sender, receiver) or (self.send(sender, receiver) and self.arrive(sender, receiver))

    def send(self, sender: int, receiver: int) -> bool:
        """Send one message, which will arrive before any sent later. False if there is none in flight, or the link is
        cut.
        """
        link = self.link(sender, receiver)
        if not link.open:
            return False
        message = self.node(sender).outgoing(link.number, self.regions[sender].config.limits.message_bytes, self.now_ms)
        if message is not None:
            link.flying[sender].append(message)
        self._obey_verdicts(link)
        return bool(link.flying[sender])

    def arrive(self, sender: int, receiver: int) -> bool:
        """Deliver the oldest message in flight; False if there is none."""
        link = self.link(sender, receiver)
        if not link.flying[sender]:
            return False
        self._deliver(link, sender, link.flying[sender].pop(0))
        self._obey_verdicts(link)
        return True

    def _obey_verdicts(self, link: Link) -> None:
        for number in link.ends:
            reason = self.node(number).link_verdict(link.number)
            if reason is not None:
                self.cut(*link.ends, reason=reason)
                return

    def carry(self, sender: int, receiver: int) -> None:
        """Deliver everything that one side has to send, and nothing back."""
        for _ in range(ROUNDS_MAX):
            if not self.carry_one(sender, receiver):
                return
        raise AssertionError(f"region {sender} never stops sending to region {receiver}")

    def sync(self) -> None:
        """Deliver everything until nothing is left to send."""
        for _ in range(ROUNDS_MAX):
            moved = False
            for a, b in self.pairs:
                moved = self.carry_one(a, b) or moved
                moved = self.carry_one(b, a) or moved
            if not moved:
                return
        raise AssertionError("the cluster never becomes quiet")

    # Faults

    def restart(self, number: int) -> None:
        """Restart the region's process from its disk and reopen its links."""
        pairs = [pair for pair in self.pairs if number in pair and self.link(*pair).open]
        for pair in pairs:
            link = self.link(*pair)
            link.open = False
            for end in link.ends:
                link.flying[end].clear()
            other = self._other(link, number)
            self.node(other).link_closed(link.number, "the peer restarted", self.now_ms)
        self.start(number)
        for pair in pairs:
            self.heal(*pair)

    def start(self, number: int) -> None:
        self.regions[number].start(self.now_ms)

    def kill(self, number: int) -> None:
        """Kill the process and restart it; what it had appended is kept."""
        self.restart(number)

    def stop(self, number: int) -> None:
        """Stop the process cleanly and remove the machine."""
        for pair in [pair for pair in self.pairs if number in pair]:
            self.cut(*pair, reason="the peer stopped")
        self.regions.pop(number).stop()

    def copy(self, number: int) -> None:
        """Keep a copy of the region's disk."""
        self.copies[number] = self.regions[number].disk.copy()

    def put_back(self, number: int) -> None:
        """Restart the region from the kept copy."""
        self.regions[number].disk = self.copies[number].copy()
        self.restart(number)

    def lose_disk(self, number: int, incarnation: int) -> None:
        region = self.regions[number]
        region.config = replace(region.config, incarnation=incarnation)
        region.lose_disk()
        self.restart(number)

    def lose_power(self, number: int, rng: random.Random, odds: float | None = None) -> None:
        """Lose power; `odds` is the chance of each unsynced page to survive, drawn if None."""
        self.regions[number].lose_power(rng, odds)
        self.restart(number)

    def tick(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        for region in self.regions.values():
            region.node.tick(self.now_ms)
            region.perform()

    def check(self) -> None:
        for region in self.regions.values():
            region.node.check()


def starts_of(number: int, config: Config) -> int:
    """Return the number from which a machine counts its starts."""
    return 0 if number == config.region else STARTS_APART * number
