"""Hash trees: every difference of two regions is found by going down from the root, and equal ones have equal rows."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from crdtstream.core.replica import Replica
from crdtstream.replication.audit.hash_tree import (
    KEYS,
    PORTION_DEPTH,
    ROWS_MAX,
    HashTree,
    Scope,
    differing,
    leads_on,
    narrower,
)

names = st.lists(st.binary(max_size=4), min_size=1, max_size=30, unique=True)


def replica_of(keys: list[bytes], database: int = 0) -> Replica:
    replica = Replica(1)
    for counter, name in enumerate(keys, 1):
        replica.add_entry((database, name), (counter, 1), [b"f", b"v"])
    return replica


def built(replica: Replica, entries_max: int = 1 << 30) -> HashTree:
    tree = HashTree(replica)
    while not tree.step(entries_max):
        assert not tree.done
    tree.check()
    return tree


def found(one: HashTree, other: HashTree, scope: Scope = ()) -> list[tuple[Scope, bytes]]:
    """Where going down leads."""
    left, right = one.rows(scope), other.rows(scope)
    assert left is not None and right is not None
    labels = differing(left, right)
    ends = [(scope, label) for label in labels if not leads_on(scope, label)]
    for inner in narrower(scope, labels):
        ends += found(one, other, inner)
    return ends


@given(names, st.integers(1, 50))
def test_order_and_steps_do_not_count(keys: list[bytes], entries_max: int) -> None:
    one = built(replica_of(keys))
    replica = replica_of(keys)
    replica.keyspace.databases[0] = dict(reversed(replica.keyspace.databases[0].items()))
    assert found(one, built(replica, entries_max)) == []


@settings(max_examples=50)
@given(names, st.data())
def test_finds_the_entry_that_is_gone(keys: list[bytes], data: st.DataObject) -> None:
    replica = replica_of(keys)
    name = data.draw(st.sampled_from(keys))
    replica.add_entry((0, name), (100, 1), [b"f", b"second"])
    other = replica_of(keys)
    other.add_entry((0, name), (100, 1), [b"f", b"other"])
    one = built(replica)
    [(scope, label)] = found(one, built(other))
    assert label == b"%d 100-1" % (len(keys) + 1)
    assert one.key_of(scope) == (0, name)
    assert scope[:PORTION_DEPTH] == one.scope_of((0, name))


def test_databases_are_apart() -> None:
    assert found(built(replica_of([b"a"])), built(replica_of([b"a"], 1))) != []


def test_keys_that_do_not_exist_are_no_part() -> None:
    replica = replica_of([b"a"])
    replica.delete_stream((0, b"a"))
    assert built(replica).rows((KEYS,)) == {}


def test_rows_are_few() -> None:
    keys = [b"%d" % number for number in range(3_000)]
    tree = built(replica_of(keys))
    scopes: list[Scope] = [()]
    seen = 0
    for scope in scopes:
        rows = tree.rows(scope)
        assert rows is not None and len(rows) <= ROWS_MAX
        if len(scope) < PORTION_DEPTH - 1:
            scopes += [(*scope, label) for label in rows]
        else:
            seen += len(rows)
    assert seen == len(keys)


def test_a_step_looks_at_few_entries() -> None:
    replica = Replica(1)
    for counter in range(1, 5_001):
        replica.add_entry((0, b"x"), (counter, 1), [b"f", b"v"])
    tree = HashTree(replica)
    steps = 1
    while not tree.step(500):
        steps += 1
    assert 8 <= steps <= 12


def test_rows_that_were_cut_are_compared_as_far_as_both_know() -> None:
    many = {b"%03d" % number: 1 for number in range(ROWS_MAX)}
    assert differing(many, {**many, b"999": 1}) == []
    assert differing({b"a": 1, b"b": 2}, {b"b": 3, b"c": 4}) == [b"a", b"b", b"c"]
