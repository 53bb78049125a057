"""The replica: the replicated state of one region, and the preparing of effects and local facts in this region.

The state has two parts, which readers reach through the replica: `keyspace` holds what lies under each key
(core/keyspace.py), and `applied` holds what was applied, the vector and the members among it (core/applying.py). A
replica changes them by what it prepares here, and by what `applied` applies.

Every change takes the same path: a fact is made (an effect with a dot, or a local fact), applied (core/applying.py) and
kept for the log. Nothing else changes state, so replaying the log rebuilds it exactly. `drain()` closes what was
prepared since its last call into one batch and the local facts of the same turn; each fact is stamped with the last
local counter before it.

The vector is the causal context of whatever is prepared next. Contexts within one batch differ only in the component of
the batch's own origin, so `drain()` must be called before a remote effect is applied; `apply_batch` asserts it.

`residue` separates the strict entry IDs that this origin mints from those of other origins (core/values/entry_id.py);
it is not an identity.

`prepared` counts attempts to change something, so it shows whether a failed command had already tried to write.

The `Acknowledged` of a dirty group is prepared at the end of a turn, and before any other effect on its key, so that an
acknowledgement never outlives the group it was made under.
"""

from __future__ import annotations

from crdtstream.core import effects as fx
from crdtstream.core.applying import Applied, StampedFact
from crdtstream.core.changed import Changed
from crdtstream.core.effects import Batch, CounterRange, Effect, Key, Position
from crdtstream.core.entries.block import Block, demand_blocks
from crdtstream.core.entries.bursts import Burst
from crdtstream.core.entries.encoding import encode_named, id_reply
from crdtstream.core.entries.spilled import SpilledReads
from crdtstream.core.groups.create import Create, resets_of
from crdtstream.core.groups.group import Group
from crdtstream.core.groups.properties import next_number
from crdtstream.core.groups.runs import EXACT_INTERVALS_MAX, UNLIMITED
from crdtstream.core.keyspace import Keyspace
from crdtstream.core.local_facts import LocalFact
from crdtstream.core.names.acknowledging import demand_runs, named_blocks
from crdtstream.core.sizes import EFFECT_BYTES, ENTRY_BYTES
from crdtstream.core.streams.expiry import VOID_EXPIRY
from crdtstream.core.streams.origin_meta import OriginMeta
from crdtstream.core.streams.properties import VOID_VALUE
from crdtstream.core.streams.removal_parts import PIECE_BYTES, parts_of
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.batch_budget import BatchBudget
from crdtstream.core.values.causality import Dot, region_of
from crdtstream.core.values.entry_id import EntryId, IdWriter
from crdtstream.core.values.intervals import Interval
from crdtstream.core.whole_state import WholeState


class Taken:
    """What was prepared since the last `drain()`: the local facts, which the log stores first, then the batch;
    `through` is the local counter at the end.
    """

    __slots__ = ("batch", "facts", "through")

    def __init__(self, batch: Batch | None, facts: list[StampedFact], through: int) -> None:
        self.batch = batch
        self.facts = facts
        self.through = through


class Replica:
    """The state of one region and the only way to change it; `changed` says which keys and groups did."""

    __slots__ = (
        "_effects",
        "_facts",
        "_first",
        "_id_writer",
        "applied",
        "budget",
        "changed",
        "exact_intervals_max",
        "expired_keys",
        "keyspace",
        "prepared",
        "reads",
        "residue",
    )

    def __init__(self, origin: int) -> None:
        self.keyspace = Keyspace()
        self.changed = Changed()
        self.applied = Applied(origin, self.keyspace, self.changed)
        self.prepared = 0
        # Nothing may wait for a block any more, once something was prepared.
        self.reads = SpilledReads()
        self.budget = BatchBudget()
        self.expired_keys = 0
        self.exact_intervals_max = EXACT_INTERVALS_MAX
        self._effects: list[Effect] = []
        self._facts: list[StampedFact] = []
        self._first = 1
        self.residue = region_of(origin)
        self._id_writer = IdWriter()

    def is_alone(self) -> bool:
        """True if this region knows of no other one: none wrote, none is a member."""
        applied = self.applied
        region = region_of(applied.origin)
        others = [*applied.members.joined(), *[origin for origin, _ in applied.vector.items()]]
        return all(region_of(origin) == region for origin in others)

    def written(self) -> int:
        """A counter that covers everything prepared, plus the acknowledgements that dirty groups may add this turn."""
        return self.applied.vector.get(self.applied.origin) + len(self.changed.dirty)

    # Prepare: effects

    def add_entry(self, key: Key, entry_id: EntryId, fields: list[bytes]) -> bytes:
        """Append to the local origin's tree; adjacent adds to one key share an effect as long as they share a block.

        Returns the ID encoded by `id_reply`.
        """
        origin = self.applied.origin
        stream = self._open(key)
        self.prepared += 1
        self.reads.may_wait = False
        counter = self.applied.vector.next(origin)
        meta = stream.metas.of(origin)
        name = id_reply(self._id_writer.text(entry_id))
        tree = stream.trees.of(origin)
        entry = encode_named(name, fields)
        block = tree.append(entry_id, counter, entry)
        self.budget.open_bytes += len(entry) + ENTRY_BYTES
        self._record_added(key, meta, counter, block, 1)
        stream.record_added(origin, tree, meta, counter, entry_id, 1)
        return name

    def add_burst(self, key: Key, burst: Burst) -> None:
        """Append the entries of a burst, as `add_entry` does each of them."""
        origin, vector = self.applied.origin, self.applied.vector
        stream = self._open(key)
        self.prepared += burst.count
        self.reads.may_wait = False
        counter = vector.get(origin) + 1
        meta, tree = stream.metas.of(origin), stream.trees.of(origin)
        low = 0
        while low < burst.count:
            block, high = tree.append_burst(burst, low, counter)
            self._record_added(key, meta, counter, block, high - low)
            counter += high - low
            low = high
        self.budget.open_bytes += len(burst.data) + ENTRY_BYTES * burst.count
        vector.advance(origin, counter - 1)
        stream.record_added(origin, tree, meta, counter - 1, burst.last_id(), burst.count)

    def _open(self, key: Key) -> Stream:
        """The stream that an entry is about to be added to: created if necessary, and noted as changed."""
        keyspace, changed = self.keyspace, self.changed
        if keyspace.observers:
            keyspace.announce(key)
        stream = keyspace.databases[key[0]].get(key[1])
        if stream is None:
            stream = keyspace.place(key, Stream())
        elif stream.length == 0 or stream.is_hidden(keyspace.now_ms):
            self.freshen(key)
        stream.used_ms = keyspace.now_ms
        if not self._effects:
            self._first = self.applied.counter() + 1
        # Consecutive adds mostly go to one stream: comparing it spares hashing the key each time.
        if stream is not changed.touching:
            changed.touching = stream
            changed.touched[key] = None
        return stream

    def _record_added(self, key: Key, meta: OriginMeta, counter: int, block: Block, count: int) -> None:
        """Count the last entries of the block, the first of which has this counter, and prepare their effect."""
        first, before = meta.next_count(counter)
        effects = self._effects
        last = effects[-1] if effects else None
        if isinstance(last, fx.EntriesAdded) and last.block is block and not self._fact_since(counter):
            last.grow(count)
        else:
            effects.append(fx.EntriesAdded(key, first, before, block, block.count - count, block.count))
            self.budget.open_bytes += EFFECT_BYTES + len(key[1])
        meta.count(first, before, count)

    def _fact_since(self, counter: int) -> bool:
        """True if a local fact was made after the previous add: replay must apply it between the two adds."""
        return bool(self._facts) and self._facts[-1][0] == counter - 1

    def add_block(self, key: Key, block: Block) -> None:
        """Append already encoded entries as one effect; the block must have the next counters."""
        counter = self.applied.counter() + 1
        assert block.counter_at(0) == counter, "the block was numbered for another counter"
        first, before = self.keyspace.ensure(key).metas.of(self.applied.origin).next_count(counter)
        self._commit(fx.EntriesAdded(key, first, before, block, 0, block.count))

    def name_entry(self, effect: fx.EntryNamed) -> None:
        """Name the entry that was added right before."""
        self._commit(effect)

    def count_add(self, key: Key) -> None:
        """Prepare an add without an entry."""
        self.acknowledge_key(key)
        counter = self.applied.counter() + 1
        first, before = self.keyspace.ensure(key).metas.of(self.applied.origin).next_count(counter)
        self._commit(fx.AddCounted(key, first, before))

    def remove_entries(
        self,
        key: Key,
        ranges: dict[int, list[CounterRange]],
        trimmed: bool,
        max_deleted: EntryId | None,
        references: dict[int, list[Interval]] | None = None,
    ) -> int:
        """Prepare an XDEL or a trim of these counters, and of the pending entries at `references`; returns how many
        entries were removed.
        """
        stream = self.keyspace.find(key)
        if stream is None or not (ranges or references):
            return 0
        if max_deleted is not None:
            max_deleted = max(max_deleted, stream.metas.of(self.applied.origin).removed_id)
        before = stream.length
        for some, others in parts_of(ranges, references or {}, self.budget.cut_bytes // PIECE_BYTES):
            self._prepare(fx.EntriesRemoved(key, some, trimmed, max_deleted, others))
            self.budget.ease()
        return before - stream.length

    def delete_stream(self, key: Key) -> bool:
        """Prepare a DEL; false if there was no key to delete. A hidden key is deleted too, and also gives false."""
        stream = self.keyspace.known(key)
        if stream is None:
            return False
        hidden = stream.is_hidden(self.keyspace.now_ms)
        self._delete(key, stream)
        return not hidden

    def _delete(self, key: Key, stream: Stream) -> None:
        counts = {origin: (meta.first, meta.added) for origin, meta in sorted(stream.metas.items()) if meta.added}
        self._prepare(fx.StreamDeleted(key, counts))

    def set_id(self, key: Key, last_id: EntryId, entries_added: int | None, max_deleted: EntryId | None) -> None:
        stream = self.keyspace.find(key)
        assert stream is not None, "XSETID of a key that does not exist"
        offset: int | None = None
        if entries_added is not None:
            offset = entries_added - (stream.entries_added() - stream.offset())
        self._prepare(fx.StreamIdSet(key, last_id, max_deleted, offset, self.applied.vector.total()))

    def create_group(self, key: Key, group: bytes, start: Position, entries_read: int) -> None:
        self.freshen(key)
        self._prepare(fx.GroupCreated(key, group, start, entries_read))

    def set_properties(self, key: Key, group: bytes, values: dict[bytes, bytes]) -> None:
        """Prepare these properties of a group that exists."""
        found = self.keyspace.known(key)
        assert found is not None, "properties for a key that does not exist"
        creates, registers = sorted(found.groups[group].creates), found.groups[group].properties
        self._prepare(fx.GroupPropertiesSet(key, group, creates, next_number(registers), values))

    def reset_group(self, key: Key, group: bytes, start: Position) -> None:
        """Prepare a new start of a group that exists."""
        self.acknowledge_key(key)
        found = self.keyspace.known(key)
        assert found is not None, "a reset for a key that does not exist"
        creates = found.groups[group].creates
        number = 1 + max([create.reset[0] for create in creates.values()])
        self._commit(fx.GroupReset(key, group, sorted(creates), number, start))

    def destroy_group(self, key: Key, group: bytes) -> bool:
        stream = self.keyspace.find(key)
        if stream is None or group not in stream.groups:
            return False
        self._prepare(fx.GroupDestroyed(key, group))
        return True

    def join_member(self, origin: int) -> None:
        """Prepare a Join of that origin: become its sponsor."""
        self._commit(fx.MemberJoined(origin))

    def say_admitted(self, join: Dot, by_all: bool) -> None:
        """Prepare the statement that this origin was admitted by this Join of itself."""
        self._commit(fx.MemberAdmitted(join[0], join[1], by_all))

    def evict_member(self, origin: int, successor: int = 0) -> None:
        """Evict that origin: its group creates are valid only as far as this region has applied them."""
        self._commit(fx.MemberEvicted(origin, self.applied.vector.get(origin), successor))

    # Origins

    def become(self, origin: int, residue: int) -> None:
        """Go on as another origin; call it between turns."""
        assert not self._effects and not self._facts, "the origin changed in the middle of a turn"
        self.applied.become(origin)
        self.residue = residue

    def _prepare(self, effect: Effect) -> None:
        self.acknowledge_key(effect.key)
        self._commit(effect)

    def _commit(self, effect: Effect) -> None:
        self.prepared += 1
        self.reads.may_wait = False
        applied = self.applied
        counter = applied.vector.get(applied.origin) + 1
        if not self._effects:
            self._first = counter
        self._effects.append(effect)
        self.budget.open_bytes += effect.bytes_max()
        applied.apply(applied.origin, counter, applied.vector, effect)
        applied.vector.advance(applied.origin, counter + effect.width - 1)

    # Prepare: expiry

    def set_expiry(self, key: Key, expires_ms: int) -> None:
        """Prepare an EXPIRE; `NO_EXPIRY` is PERSIST."""
        assert self.keyspace.peek(key) is not None, "an expiry for a key that does not exist"
        self._prepare(fx.ExpirySet(key, expires_ms))

    def set_stream_properties(self, key: Key, values: dict[bytes, bytes]) -> None:
        """Prepare these properties of a key; it exists, unless the values are `VOID_VALUE`."""
        stream = self.keyspace.databases[key[0]][key[1]]
        number = 1 if stream.properties is None else stream.properties.next_number()
        self._prepare(fx.StreamPropertiesSet(key, number, values))

    def freshen(self, key: Key) -> None:
        """Call before a write that may create the key: deletes a hidden key, and voids what outlived a key."""
        stream = self.keyspace.databases[key[0]].get(key[1])
        if stream is None:
            return
        if not stream.exists():
            if stream.expiries():
                self._prepare(fx.ExpirySet(key, VOID_EXPIRY))
            if stream.properties is not None:
                self.set_stream_properties(key, dict.fromkeys(stream.properties.values(), VOID_VALUE))
        elif stream.is_hidden(self.keyspace.now_ms):
            self.expired_keys += 1
            self._delete(key, stream)

    # Prepare: acknowledgements

    def acknowledge_unread(self, key: Key, name: bytes, runs: dict[int, list[Interval]]) -> None:
        """Prepare runs of entries that another region delivered, acknowledged here."""
        stream = self.keyspace.known(key)
        assert stream is not None, "runs for a key that does not exist"
        self.acknowledge_key(key)
        self._acknowledge_runs(key, name, stream.groups[name].creates, runs)

    def acknowledge_delivered(self, key: Key, name: bytes) -> None:
        """Prepare runs of all that was delivered here and is not pending, however many these are."""
        stream = self.keyspace.known(key)
        assert stream is not None, "a group of a key that does not exist"
        group = stream.groups[name]
        group.acknowledge_delivered()
        if self.reads.may_wait:
            demand_runs(stream, [name], UNLIMITED)
        self.acknowledge_key(key)
        group.acknowledge_delivered()
        runs = group.new_runs(stream.trees, UNLIMITED)
        if runs:
            self._acknowledge_runs(key, name, group.creates, runs)

    def prepare_runs(self, key: Key, name: bytes, runs: dict[int, list[Interval]]) -> None:
        """Prepare these runs alone: what the group has under its source's name, for the group of a copy, or what
        belongs into one batch with other effects.
        """
        stream = self.keyspace.known(key)
        assert stream is not None, "runs for a key that does not exist"
        if runs:
            creates = stream.groups[name].creates
            self._commit(fx.Acknowledged(key, name, sorted(creates), runs, resets_of(creates)))

    def acknowledge_key(self, key: Key) -> None:
        """Prepare the new runs of this key's groups; call it before another effect on the key."""
        if self.changed.dirty:
            found = [entry for entry in self.changed.dirty if entry[0] == key]
            if len(found) > 1 and self.reads.may_wait:
                # Once the runs of the first one are prepared, those of the others may not wait.
                demand_runs(self.keyspace.known(key), [name for _, name in found], self.exact_intervals_max)
            for dirty in found:
                self.acknowledge(dirty)

    def acknowledge_all(self) -> None:
        """Prepare the new runs of all dirty groups; call it at the end of a turn."""
        while self.changed.dirty:
            # A list, because a dictionary would search for its first key behind all that were removed before.
            for dirty in list(self.changed.dirty):
                if dirty in self.changed.dirty:
                    self.acknowledge(dirty)
                    self.budget.ease()

    def acknowledge(self, dirty: tuple[Key, bytes]) -> None:
        """Prepare the new runs of a dirty group; raises NotAtOnce before anything changes."""
        key, name = dirty
        stream = self.keyspace.known(key)
        group = None if stream is None else stream.groups.get(name)
        if stream is None or group is None:
            self.changed.forget_dirty(dirty)
            return
        runs = group.look_for_runs(stream.trees, self.exact_intervals_max)
        if self.reads.may_wait:
            demand_blocks(named_blocks(stream, runs))
        group.record_new_runs(runs, self.exact_intervals_max)
        self.changed.forget_dirty(dirty)
        if runs:
            self._acknowledge_runs(key, name, group.creates, runs)
            self.changed.forget_dirty(dirty)

    def _acknowledge_runs(
        self, key: Key, name: bytes, creates: dict[Dot, Create], runs: dict[int, list[Interval]]
    ) -> None:
        """Prepare these runs, in parts where they are very many."""
        dots, resets = sorted(creates), resets_of(creates)
        for _, some in parts_of({}, runs, self.budget.cut_bytes // PIECE_BYTES):
            self._commit(fx.Acknowledged(key, name, dots, some, resets))
            self.budget.ease()

    # Prepare: local facts

    def record(self, fact: LocalFact) -> None:
        """Record a local fact: it is applied and logged, and never sent."""
        self._record_fact(fact)
        self.applied.apply_fact(fact)

    def record_unchanged(self, fact: LocalFact) -> None:
        """Like `record`, for what does not count as a change since the last save."""
        self.record(fact)
        self.applied.discount()

    def record_for(self, stream: Stream, group: Group, fact: LocalFact) -> None:
        """Like `record`, for a caller that has just looked up the group that the fact is about."""
        self._record_fact(fact)
        self.applied.apply_to_group(stream, group, fact)

    def _record_fact(self, fact: LocalFact) -> None:
        self.prepared += 1
        self.reads.may_wait = False
        self._facts.append((self.applied.counter(), fact))

    @property
    def is_open(self) -> bool:
        """True if something was prepared since the last `drain()`."""
        return bool(self._effects or self._facts)

    def drain(self) -> Taken:
        """Close and return what was prepared since the last call."""
        applied = self.applied
        batch: Batch | None = None
        if self._effects:
            batch = Batch(applied.origin, self._first, applied.counter(), applied.drain_news(), self._effects)
            self._effects = []
            self.budget.open_bytes = 0
        facts = self._facts
        self._facts = []
        return Taken(batch, facts, applied.counter())

    def opened(self) -> tuple[list[Effect], list[StampedFact]]:
        """What was prepared since the last `drain()`, to be read only; the last effect may still grow."""
        return self._effects, self._facts

    def is_settled(self) -> bool:
        """True if everything prepared was taken for the log, so that a key can be captured."""
        return not self._effects and not self._facts and not self.changed.dirty

    # Between turns

    def apply_batch(self, batch: Batch, position: int = 0) -> None:
        assert not self._effects, "a local batch is open: drain() it before remote effects are applied"
        self.applied.apply_batch(batch, position)

    def join(self, state: WholeState, position: int = 0) -> None:
        assert not self._effects and not self._facts, "a turn is open: drain() it before a state is joined"
        self.applied.join(state, position)

    def replace(self, state: WholeState, position: int = 0) -> None:
        assert not self._effects and not self._facts, "a turn is open: drain() it before another state takes its place"
        self.applied.replace(state, position)

    def check(self) -> None:
        self.budget.check()
        self.keyspace.check()
        self.applied.check()
