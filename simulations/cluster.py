"""A cluster of regions in one process: production nodes and logs on simulated disks, joined by links that the test
moves.

Nothing happens by itself: `execute` runs one command and its turn, `carry` moves what one side of a link has to say,
`sync` moves everything until all is quiet. Time is a number that the caller sets. What a link carries is serialised and
parsed again, as on the wire.
"""

from __future__ import annotations

import random
from dataclasses import replace

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


class Region:
    """One region: its node, and the log and disk that outlive it."""

    def __init__(self, config: Config, now_ms: int) -> None:
        self.config = config
        self.disk = SimulatedDisk()
        self.boots = 0
        self.starts = 0
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
        nonce = self.config.region * 1_000_003 + self.starts
        self.node.start(self.log, b"boot-%d" % self.boots, nonce, now_ms)
        self.replies: dict[int, list[bytes]] = {}
        self.perform()
        self.sync()
        self.connect(CLIENT, now_ms)

    def connect(self, client_id: int, now_ms: int) -> None:
        self.node.connect(client_id, "127.0.0.1:0", now_ms)

    def perform(self) -> None:
        """Do what the node wants, until it wants nothing."""
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
        """What `everysec` does each second."""
        self.node.synced(self.log.sync())
        self.perform()

    def execute(self, argv: list[bytes], now_ms: int, client_id: int = CLIENT) -> bytes | None:
        """The reply, or None when the client waits."""
        self.node.execute(client_id, argv, now_ms)
        self.perform()
        return self.take_reply(client_id)

    def take_reply(self, client_id: int = CLIENT) -> bytes | None:
        replies = self.replies.pop(client_id, [])
        return b"".join(replies) if replies else None

    def checkpoint_step(self, units: int) -> bool:
        """Go on with a checkpoint, or begin one if that is possible now; true when none is under way."""
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
        """Keep no more of the log than a restart needs, whoever lacks the rest; all of it while a state arrives."""
        if not self.node.can_describe():
            return
        self.log.has_room(self.config.limits.segment_bytes_max)
        self.node.turn.add(codec.START, codec.encode_start(b"boot-%d" % self.boots, self.config.fsync))
        self.perform()
        self.checkpoint()
        self.sync()
        self.log.truncate_before(self.log.last_position)

    def stop(self) -> None:
        """A clean stop."""
        self._perform_one(self.node.stop())
        self.log.sync()

    def lose_power(self, rng: random.Random, odds: float | None) -> None:
        """Unsynced writes may be gone, and the kernel boots anew."""
        self.disk.crash(rng, odds)
        self.boots += 1

    def lose_disk(self) -> None:
        self.disk = SimulatedDisk()
        self.boots += 1


class Link:
    """A link between two regions: open or cut, and what each end has sent that has not arrived."""

    def __init__(self, number: int, low: int, high: int) -> None:
        self.number = number
        self.ends = (low, high)
        self.open = False
        self.flying: dict[int, list[Message]] = {low: [], high: []}


class Cluster:
    """Regions 1..n, and links between those that `pairs` names (all of them by default).

    `fsync` is a policy for all, or one for each.
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
        for number in numbers:
            config = replace(
                base,
                name=f"region{number}",
                region=number,
                fsync=policies[min(number, len(policies)) - 1],
                limits=limits or Limits(segment_bytes_max=SEGMENT_BYTES),
            )
            if number not in absent:
                self.regions[number] = self.region(config)
        self.links = {pair: Link(index + 1, *pair) for index, pair in enumerate(self.pairs)}
        for pair in self.pairs:
            if not set(absent).intersection(pair):
                self.heal(*pair)

    def region(self, config: Config) -> Region:
        return Region(config, self.now_ms)

    def add(self, number: int, peer: int) -> None:
        """A region that was absent starts with an empty disk, and asks this peer which origin it is."""
        peers = (f"region{peer}:1",)
        known = self.regions[peer].config
        config = replace(known, name=f"region{number}", region=number, incarnation=None, peers=peers)
        self.regions[number] = self.region(config)
        self.node(number).peer_met(peers[0], peer)
        self.heal(number, peer)

    def node(self, number: int) -> Node:
        return self.regions[number].node

    def link(self, a: int, b: int) -> Link:
        return self.links[(min(a, b), max(a, b))]

    def execute(self, number: int, argv: list[bytes], client_id: int = CLIENT) -> bytes | None:
        return self.regions[number].execute(argv, self.now_ms, client_id)

    def execute_turn(self, number: int, commands: list[list[bytes]]) -> bytes | None:
        """Several commands in one turn; their replies together."""
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
        """Open the link and let both sides greet."""
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
        """Move one message; false when there is none, or the link is cut."""
        return self.arrive(sender, receiver) or (self.send(sender, receiver) and self.arrive(sender, receiver))

    def send(self, sender: int, receiver: int) -> bool:
        """One message leaves; it arrives before whatever leaves later. False when there is none, or the link is cut."""
        link = self.link(sender, receiver)
        if not link.open:
            return False
        message = self.node(sender).outgoing(link.number, self.regions[sender].config.limits.message_bytes, self.now_ms)
        if message is not None:
            link.flying[sender].append(message)
        self._obey_verdicts(link)
        return bool(link.flying[sender])

    def arrive(self, sender: int, receiver: int) -> bool:
        """The oldest message that is on its way arrives; false when there is none."""
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
        """Move all that one side has to say to the other, and nothing back."""
        for _ in range(ROUNDS_MAX):
            if not self.carry_one(sender, receiver):
                return
        raise AssertionError(f"region {sender} never stops talking to region {receiver}")

    def sync(self) -> None:
        """Move everything until nothing is left to say."""
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
        """The region's process begins again from its disk; its links come back."""
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
        """The process ends and begins again; what it appended stays."""
        self.restart(number)

    def lose_disk(self, number: int, incarnation: int) -> None:
        region = self.regions[number]
        region.config = replace(region.config, incarnation=incarnation)
        region.lose_disk()
        self.restart(number)

    def lose_power(self, number: int, rng: random.Random, odds: float | None = None) -> None:
        """`odds` are those of each unsynced page to survive; any when None."""
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
