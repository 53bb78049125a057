"""Whatever a region accepts, every member can apply: transactions whose commands write more than their arguments."""

from __future__ import annotations

from crdtstream.bulk.errors import INVALID_ARGUMENT, BulkError
from crdtstream.bulk.frontiers import Advancing
from crdtstream.protocols.dump_writing import id_bytes, length, node_bytes, string
from crdtstream.protocols.stream_dump import KIND_1
from simulations.cluster import Cluster
from tests.protocols.payloads import sealed
from tests.test_bounds import KIB, NARROW, assert_equal, batch_sizes, pair, refused, run, settle

ENTRIES = 6_000


def expanding(count: int, name: bytes = b"n" * 1_000) -> bytes:
    """A payload that holds the names of the fields once, and expands to `count` times as much."""
    entries = [((1, at), [name, b"v"]) for at in range(1, count + 1)]
    parts = [bytes([KIND_1]), length(1), string(id_bytes((1, 1))), string(node_bytes(entries))]
    return sealed(b"".join([*parts, *map(length, (count, 1, count)), length(0)]), 9)


def in_transaction(cluster: Cluster, *queued: list[bytes]) -> object:
    run(cluster, b"MULTI")
    for argv in queued:
        run(cluster, *argv)
    return run(cluster, b"EXEC")


def scattered(cluster: Cluster, count: int = ENTRIES) -> None:
    """Entries of which a group has acknowledged each second one."""
    ids = [b"%d-1" % at for at in range(1, count + 1)]
    for low in range(0, count, 1_000):
        cluster.execute_turn(1, [[b"XADD", b"s", one, b"f", b"v"] for one in ids[low : low + 1_000]])
    run(cluster, b"XGROUP", b"CREATE", b"s", b"g", b"0")
    run(cluster, b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"%d" % ENTRIES, b"STREAMS", b"s", b">")
    for low in range(0, count, 1_000):
        run(cluster, b"XACK", b"s", b"g", *ids[low : low + 1_000 : 2])
    settle(cluster)


def assert_bounded(cluster: Cluster) -> None:
    assert max(batch_sizes(cluster)) <= NARROW.batch_bytes_max


def test_small_adds_after_a_payload_that_expanded_are_refused() -> None:
    cluster, closed = pair()
    added = [b"XADD", b"k", b"*", b"f", b"w" * 25_000]
    replies = in_transaction(cluster, [b"RESTORE", b"t", b"0", expanding(185)], *[added] * 4)
    assert isinstance(replies, list)
    assert isinstance(replies[1], str) and "the transaction with this command takes" in refused(replies[-1])
    assert run(cluster, b"XLEN", b"t") == 185
    assert_bounded(cluster)
    assert_equal(cluster, closed)


def test_a_payload_that_expands_after_adds_is_refused() -> None:
    cluster, closed = pair()
    added = [b"XADD", b"k", b"*", b"f", b"w" * 25_000]
    replies = in_transaction(cluster, *[added] * 4, [b"RESTORE", b"t", b"0", expanding(185)])
    assert isinstance(replies, list)
    assert "what the payload restores takes" in refused(replies[-1])
    assert (run(cluster, b"XLEN", b"k"), run(cluster, b"EXISTS", b"t")) == (4, 0)
    assert_equal(cluster, closed)


def test_a_payload_in_a_transaction_counts_once() -> None:
    cluster, closed = pair()
    run(cluster, b"XADD", b"s", b"*", b"f", b"v" * (100 * KIB))
    payload = (cluster.execute(1, [b"DUMP", b"s"]) or b"").partition(b"\r\n")[2][:-2]
    assert in_transaction(cluster, [b"RESTORE", b"t", b"0", payload]) == ["OK"]
    assert_equal(cluster, closed)


def test_an_add_that_trims_what_is_acknowledged_counts_what_it_names() -> None:
    cluster, closed = pair()
    scattered(cluster)
    for references in (b"ACKED", b"DELREF"):
        trimming = [b"XADD", b"s", b"MAXLEN", b"=", b"0", references, b"*", b"f", b"v"]
        assert "EXECABORT" in refused(in_transaction(cluster, trimming))
    assert run(cluster, b"XLEN", b"s") == ENTRIES
    keep = [b"XADD", b"s", b"MAXLEN", b"=", b"%d" % ENTRIES, b"ACKED", b"*", b"f", b"v"]
    assert isinstance(in_transaction(cluster, keep), list), "only what it removes counts"
    assert_bounded(cluster)
    assert_equal(cluster, closed)


def test_a_trim_that_others_of_its_transaction_made_larger_is_refused() -> None:
    cluster, closed = pair()
    scattered(cluster, 2_500)
    trim = [b"XTRIM", b"t", b"MAXLEN", b"0", b"ACKED"]
    replies = in_transaction(cluster, [b"RENAME", b"s", b"t"], trim, [b"PING"])
    assert isinstance(replies, list)
    assert (replies[0], replies[2]) == ("OK", "PONG") and "the transaction with this command" in refused(replies[1])
    assert run(cluster, b"XLEN", b"t") == 2_500
    assert_equal(cluster, closed)


def test_a_field_is_no_option() -> None:
    cluster, closed = pair()
    scattered(cluster)
    named = [b"XADD", b"s", b"9999999-1", b"ACKED", b"DELREF"]
    assert in_transaction(cluster, named) == ["9999999-1"]
    assert_equal(cluster, closed)


def acknowledging(cluster: Cluster, count: int) -> list[list[bytes]]:
    """XACKs that write the long names of as many groups, once something else is written to their stream."""
    groups = [b"%d" % number + b"g" * 30_000 for number in range(count)]
    run(cluster, b"XADD", b"s", b"1-1", b"f", b"v")
    for group in groups:
        run(cluster, b"XGROUP", b"CREATE", b"s", group, b"0")
        run(cluster, b"XREADGROUP", b"GROUP", group, b"c", b"STREAMS", b"s", b">")
    settle(cluster)
    return [[b"XACK", b"s", group, b"1-1"] for group in groups]


def test_acknowledgements_before_a_transaction_are_in_other_batches() -> None:
    cluster, closed = pair()
    acks = acknowledging(cluster, 4)
    queued = [*[[b"XADD", b"s", b"*", b"f", b"w" * 30_000]] * 7, [b"EXPIRE", b"s", b"9999"]]
    assert b"batch_bytes_max" not in (cluster.execute_turn(1, [*acks, [b"MULTI"], *queued, [b"EXEC"]]) or b"")
    assert_bounded(cluster)
    assert_equal(cluster, closed)


def test_acknowledgements_in_a_transaction_count() -> None:
    cluster, closed = pair()
    acks = acknowledging(cluster, 2)
    queued = [[b"RESTORE", b"t", b"0", expanding(185)], *acks, [b"EXPIRE", b"s", b"9999"]]
    replies = in_transaction(cluster, *queued)
    assert isinstance(replies, list)
    refused(replies[1])
    assert_bounded(cluster)
    assert_equal(cluster, closed)


def test_groups_that_are_made_before_an_advance() -> None:
    cluster, closed = pair()
    keys = [(0, b"s%d" % number) for number in range(20)]
    for _, name in keys:
        run(cluster, b"XADD", name, b"*", b"f", b"v")
    node = cluster.node(1)
    positions = {key: {node.replica.applied.origin: 1} for key in keys}
    try:
        Advancing(b"g" * 100_000, b"c", positions).create(node.context)
        raise AssertionError("the name is longer than a share of a batch")
    except BulkError as error:
        assert error.code == INVALID_ARGUMENT and error.text.startswith("the name of the group has 100000 bytes")
    assert Advancing(b"g" * 30_000, b"c", positions).create(node.context)
    cluster.turn(1)
    settle(cluster)
    assert_bounded(cluster)
    assert_equal(cluster, closed)
