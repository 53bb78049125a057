"""What must hold where blocks are spilled: what waits for the disk, for how long, and where spilled blocks lie."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator

from crdtstream.core.effects import Batch, EntryNamed
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.packed_block import BlockDamaged
from crdtstream.core.entries.spilled import PLACE_BITS, STAGED, BlockHandle
from crdtstream.core.names.adding import STORE
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import ID_MAX, ID_MIN
from crdtstream.replication.wire_pb2 import Message
from crdtstream.scenarios.reply import ReplyError, Value
from crdtstream.storage.checkpoint import checkpoint_names, files_of
from simulations.checking import Checker, Sampled
from simulations.disk import SimulatedFile
from simulations.machine import Machine
from simulations.network import Connection, Network, Pair
from simulations.shard_refusals import Refused
from simulations.spill_clients import Transaction

# Ticks for which anything may wait for blocks: a read takes three at most, and some waits need several reads.
WAITS_TICKS = 40
Waiting = tuple[Hashable, ...]


class NothingWaits(Checker):
    """A region waits for the disk within a turn only

    - in a transaction, for what a command needs because of another one;
    - in a command that makes dead letters, for what groups acknowledge between two of them;
    - for a state that it is about to join, which is one turn;
    - for what was open when the turn or a request of it began, was there at once, or had been read for a request that
      ran, and closed since: worlds let hardly anything be open.

    A start reads what it needs as it goes, since nobody is served yet. Worlds with a partitioned stream are left out:
    its ticks, and calls that the runtime makes in slices, read at once what they need.
    """

    name = "waits within turns"

    def __init__(self) -> None:
        self._before: dict[int, Pair] = {}
        self._open: dict[int, set[tuple[str, int]]] = {}
        self._staging: dict[int, bool] = {}

    def started(self, world: Network, number: int, fault: str) -> None:
        self._record(world, number)

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._add_open(world.machines[number])

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        self._add_open(world.machines[receiver])

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        if world.misses is None or world.partitioned is not None:
            return
        waited, transactions = self._before.get(number, (0, 0))
        waits, known = set(world.misses.waits), self._open.get(number, set()) | world.misses.found_at
        excused = (
            machine.node.statistics.tally("exec").calls > transactions
            or self._staging.get(number)
            or joins(machine)
            or makes_letters(machine)
        )
        self._record(world, number)
        if self._before[number][0] > waited and not excused and not waits <= known:
            self.fail(f"region {number} waited for {sorted(waits - known)} in the middle of a turn")

    def _record(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        if world.misses is not None:
            world.misses.waits.clear()
            world.misses.found_at.clear()
        self._staging[number] = machine.node.exchange.fetching.staging is not None
        self._before[number] = machine.node.replica.reads.waited, machine.node.statistics.tally("exec").calls
        self._open[number] = set()
        self._add_open(machine)

    def _add_open(self, machine: Machine) -> None:
        """Add what is open now; before a request, that is also what was opened since the turn began."""
        handles = [block.handle for block in blocks_of(machine) if not block.is_packed and lies_on_disk(block)]
        positions = {(one.file_name(), one.offset) for one in handles if one is not None}
        self._open.setdefault(machine.number, set()).update(positions)


def joins(machine: Machine) -> bool:
    """Return whether the region joined a state in this turn."""
    return any(isinstance(logged, VersionVector) for logged in machine.logged)


def makes_letters(machine: Machine) -> bool:
    """Return whether the region made dead letters in this turn: adds that the store itself named."""
    effects = [effect for logged in machine.logged if isinstance(logged, Batch) for effect in logged.effects]
    return any(isinstance(effect, EntryNamed) and effect.producer == STORE for effect in effects)


def lies_on_disk(block: Block) -> bool:
    """Return whether a block is spilled, be it open or not."""
    return block.packed_form is not None and block.packed_form.spilled


class WaitsUnchanged(Checker):
    """A command that waits for blocks has changed nothing yet."""

    name = "waits first"

    def __init__(self) -> None:
        self._asked: dict[int, Pair] = {}

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._asked[number] = changes_of(world.machines[number])

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        (before, expired), (after, expired_since) = self._asked[number], changes_of(world.machines[number])
        if after > before and expired == expired_since and not world.settings.has_names:
            self.fail(f"region {number} changed something before {argv} waits for blocks")


def changes_of(machine: Machine) -> Pair:
    """Return how much a region has prepared, and how many keys it found expired on the way."""
    return machine.node.replica.prepared, machine.node.replica.expired_keys


class BlocksCome(Checker):
    """What waits for blocks gets them: no request, batch or acknowledgement waits for long."""

    name = "blocks come"

    def __init__(self) -> None:
        self._waits: dict[int, dict[Waiting, int]] = {}

    def ticked(self, world: Network, number: int) -> None:
        before = self._waits.get(number, {})
        waits = self._waits[number] = {name: before.get(name, 0) + 1 for name in waiting_in(world.machines[number])}
        for name, ticks in waits.items():
            if ticks > WAITS_TICKS:
                self.fail(f"region {number}: {name} has waited for blocks for {ticks} ticks")

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._waits.pop(number, None)


def waiting_in(machine: Machine) -> Iterator[Waiting]:
    """Yield what waits for blocks now: its kind, and what tells it from others."""
    context, arrivals = machine.node.context, machine.node.exchange.arrivals
    for client_id, asked in machine.unanswered.items():
        if context.block_reads.has(client_id):
            kind = "transaction" if isinstance(asked[0].argv, Transaction) else "command"
            yield ("blocked reader" if client_id in context.parking.waiters else kind, client_id, id(asked[0].argv))
    for origin in machine.node.replica.applied.vector.as_dict():
        if arrivals.deferred_work.awaits(origin):
            yield ("batch", origin, machine.node.replica.applied.vector.get(origin))
    for dirty in machine.node.replica.changed.dirty:
        yield ("runs", dirty)


class CountedOnce(Checker):
    """A request that ran again because blocks were read counts once."""

    name = "counted once"

    def __init__(self) -> None:
        self._asked: dict[int, Counter[str]] = {}

    def started(self, world: Network, number: int, fault: str) -> None:
        self._asked.pop(number, None)

    def asked(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._asked.setdefault(number, Counter())[command_of(argv)] += 1

    def put_off(self, world: Network, number: int, argv: list[bytes]) -> None:
        self._asked[number][command_of(argv)] -= 1

    def refused(self, world: Network, number: int, refused: Refused) -> None:
        """An EXEC counts, also if it runs nothing because something could not be queued."""
        if isinstance(refused.argv, Transaction):
            self.asked(world, number, refused.argv)

    def turned(self, world: Network, number: int) -> None:
        statistics = world.machines[number].node.statistics
        for name in (*COUNTED, "exec"):
            asked = self._asked.get(number, Counter())[name]
            if statistics.tally(name).calls > asked:
                self.fail(
                    f"region {number} counts {statistics.tally(name).calls} calls of {name}, and was asked {asked}"
                )


# Asked for by clients alone, and in no transaction.
COUNTED = ("xadd", "xreadgroup", "xread", "xrevrange", "xack", "xclaim", "xautoclaim", "exec")


def command_of(argv: list[bytes]) -> str:
    return argv[0].decode().lower()


class KeptInFiles(Sampled):
    """A spilled block lies in a file of the checkpoint in force, or in the one of a state that arrived since, and its
    handle reads it there. Once all is quiet, no other file of a checkpoint is left, nor one of a state.
    """

    name = "block files"

    def look(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        manifest = machine.checkpointer.manifest
        if not world.settings.spilling or not machine.up:
            return
        named = set() if manifest is None else {file for file, _ in manifest.block_files}
        for handle in [block.handle for block in blocks_of(machine) if lies_on_disk(block)]:
            assert handle is not None
            if handle.place and handle.place >> PLACE_BITS not in named:
                self.fail(f"region {number}: {handle.where()}, is not in the checkpoint in force")
            if handle.file_name() not in machine.flipped and not handle.is_whole(handle.read()):
                self.fail(f"region {number}: {handle.where()}, is not what was written")

    def at_end(self, world: Network) -> None:
        super().at_end(world)
        for number, machine in world.machines.items():
            manifest = machine.checkpointer.manifest
            if machine.checkpointer.capture is None and manifest is not None and machine.up:
                left = set(checkpoint_names(machine.disk)) - files_of(manifest)
                if left:
                    self.fail(f"region {number} keeps {sorted(left)}, which no checkpoint in force names")
            if STAGED in machine.disk.names() and machine.node.exchange.fetching.staging is None and machine.up:
                self.fail(f"region {number} keeps {STAGED}, and fetches no state")


def blocks_of(machine: Machine) -> Iterator[Block]:
    """Yield the blocks of a region."""
    for _, stream in machine.node.replica.keyspace.streams():
        for tree in stream.trees.values():
            yield from tree.overlapping(ID_MIN, ID_MAX)


class DamageIsSeen(Sampled):
    """Opening a spilled block of which a bit has flipped fails, and opening any other block does not."""

    name = "cold damage"

    def __init__(self) -> None:
        super().__init__()
        self._flips = 0

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        if isinstance(value, ReplyError) and "BlockDamaged" in str(value) and not world.machines[number].flipped:
            self.fail(f"region {number}: {value}")

    def turned(self, world: Network, number: int) -> None:
        machine = world.machines[number]
        for deferred_work in (machine.node.context.deferred_work, machine.node.exchange.arrivals.deferred_work):
            if deferred_work.failures and not machine.flipped:
                self.fail(
                    f"region {number}: {deferred_work.failures} reads of blocks brought other bytes than were written"
                )
        super().turned(world, number)

    def look(self, world: Network, number: int) -> None:
        """Flip a bit of each spilled block, have it opened, and flip the bit back."""
        machine = world.machines[number]
        for block in blocks_of(machine) if world.settings.spilling and machine.up else ():
            handle = block.handle
            if block.is_spilled() and handle is not None and not machine.flipped:
                self._flips += 1
                self._try(block, handle)

    def _try(self, block: Block, handle: BlockHandle) -> None:
        # The file may have no name any more, or another one may have it now.
        file, offset, bit = handle.file, handle.offset + self._flips % handle.length, self._flips % 8
        assert isinstance(file, SimulatedFile), "a block lies in a file that is not simulated"
        file.flip_bit(offset, bit)
        try:
            block.unpacked()
        except BlockDamaged:
            return
        finally:
            file.flip_bit(offset, bit)
        self.fail(f"a bit at byte {offset} of {handle.file_name()} flipped, and its block was opened")


def spill_checkers() -> list[Checker]:
    return [NothingWaits(), WaitsUnchanged(), BlocksCome(), CountedOnce(), KeptInFiles(), DamageIsSeen()]
