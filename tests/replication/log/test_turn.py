"""Records of a turn: their order, their numbers, and what replays from them."""

from __future__ import annotations

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.effects import Batch, Effect, EntriesAdded, Position, StreamDeleted
from crdtstream.core.entries.block import Block
from crdtstream.core.entries.encoding import encode_entry
from crdtstream.core.local_facts import ConsumerCreated
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.core.values.entry_id import ID_MIN
from crdtstream.protocols import codec
from crdtstream.protocols.log_port import joined
from crdtstream.replication.log.history import History
from crdtstream.replication.log.turn import Turn

KEY = (0, b"x")


def turn_of(origin: int) -> tuple[Turn, Replica]:
    replica = Replica(origin)
    turn = Turn(replica, History())
    return turn, replica


def receive(turn: Turn, payload: bytes) -> None:
    turn.apply(codec.decode_header(payload), payload)


def test_an_empty_turn_has_no_records() -> None:
    turn, _ = turn_of(1)
    turn.cut()
    assert turn.end() == []
    assert turn.last_position == 0


def test_effects_of_a_turn_are_one_batch() -> None:
    turn, replica = turn_of(1)
    for seq in (1, 2, 3):
        replica.add_entry(KEY, (5, seq), [b"f", b"v"])
    turn.cut()
    [(kind, payload)] = turn.end()
    header = codec.decode_header(joined(payload))
    assert (kind, header.origin, header.first, header.last) == (codec.BATCH, 1, 1, 3)
    assert turn.end() == []


def added(counter: int, milliseconds: int) -> EntriesAdded:
    block = Block()
    block.append((milliseconds, 2), counter, encode_entry((milliseconds, 2), [b"f", b"v"]))
    return EntriesAdded(KEY, 1, counter - 1, block, 0, 1)


def batch_of(first: int, *effects: Effect) -> bytes:
    last = first + len(effects) - 1
    return codec.encode_batch(Batch(2, first, last, VersionVector({2: first - 1}), list(effects)))


@pytest.mark.parametrize(
    "effects",
    [[added(3, 10)], [added(3, 9)], [added(3, 11), added(4, 11)], [StreamDeleted(KEY, {}), added(4, 5), added(5, 4)]],
    ids=["equal", "below", "in one batch", "after a DEL"],
)
def test_a_batch_whose_ids_do_not_ascend_changes_nothing(effects: list[Effect]) -> None:
    """Else the core would meet it halfway through."""
    turn, replica = turn_of(1)
    receive(turn, batch_of(1, added(1, 9), added(2, 10)))
    before = digest_replica(replica)
    turn.end()
    with pytest.raises(codec.CodecError, match="origin 2"):
        receive(turn, batch_of(3, *effects))
    replica.check()
    assert (digest_replica(replica), replica.applied.vector.get(2), turn.end()) == (before, 2, [])


def test_ids_start_over_after_a_del() -> None:
    turn, replica = turn_of(1)
    receive(turn, batch_of(1, added(1, 10)))
    receive(turn, batch_of(2, StreamDeleted(KEY, {2: (1, 1)}), added(3, 5), added(4, 6)))
    replica.check()
    stream = replica.keyspace.find(KEY)
    assert stream is not None and stream.length == 2


def test_facts_come_before_the_batch_they_are_stamped_against() -> None:
    turn, replica = turn_of(1)
    replica.create_group(KEY, b"g", Position(ID_MIN, {}), 0)
    replica.record(ConsumerCreated(KEY, b"g", b"c", 5))
    turn.cut()
    assert [kind for kind, _ in turn.end()] == [codec.LOCAL, codec.BATCH]
    assert turn.last_position == 2


def test_records_are_numbered_as_the_log_will_take_them() -> None:
    turn, replica = turn_of(1)
    turn.last_position = 10
    assert turn.add(codec.START, b"") == 11
    replica.add_entry(KEY, (5, 1), [b"f", b"v"])
    turn.cut()
    assert turn.last_position == 12
    assert len(turn.end()) == 2
    assert turn.add(codec.STOP, b"") == 13


def remote_batch() -> bytes:
    turn, replica = turn_of(2)
    replica.add_entry(KEY, (7, 2), [b"f", b"remote"])
    turn.cut()
    return joined(turn.end()[0][1])


def test_a_remote_batch_cuts_what_was_prepared_and_is_logged_as_it_came() -> None:
    turn, replica = turn_of(1)
    payload = remote_batch()
    replica.add_entry(KEY, (5, 1), [b"f", b"v"])
    receive(turn, payload)
    replica.add_entry(KEY, (9, 1), [b"f", b"v"])
    turn.cut()
    records = turn.end()
    headers = [codec.decode_header(joined(record)) for _, record in records]
    assert [(header.origin, header.first) for header in headers] == [(1, 1), (2, 1), (1, 2)]
    assert records[1][1] is payload
    assert list(headers[2].context.items()) == [(1, 1), (2, 1)]
    replica.check()


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x95\x02"])
def test_a_batch_that_cannot_be_read_changes_nothing(damage: bytes) -> None:
    turn, replica = turn_of(1)
    replica.add_entry(KEY, (5, 1), [b"f", b"v"])
    with pytest.raises(codec.CodecError):
        receive(turn, damage)
    turn.cut()
    assert len(turn.end()) == 1
    assert list(replica.applied.vector.items()) == [(1, 1)]
    replica.check()


class Noting:
    """A witness that notes what it is told."""

    def __init__(self, replica: Replica) -> None:
        self.replica = replica
        self.on = True
        self.told: list[object] = []

    def publish_prepared(self) -> None:
        self.told.append(len(self.replica.opened()[0]))

    def publish_applied(self, batch: Batch) -> None:
        self.told.append((batch.first, batch.last))


def test_a_witness_sees_what_is_about_to_be_a_record_and_what_was_applied() -> None:
    turn, replica = turn_of(1)
    turn.witness = witness = Noting(replica)
    replica.add_entry(KEY, (5, 1), [b"f", b"v"])
    receive(turn, batch_of(1, added(1, 7), StreamDeleted(KEY, {})))
    turn.cut()
    assert witness.told == [1, (1, 2)]
    witness.on = False
    receive(turn, batch_of(3, added(1, 8)))
    assert witness.told == [1, (1, 2)]
