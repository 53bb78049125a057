"""Whatever a region accepts, every member can apply: regions with different bounds, and what is too large for one."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.core.digest import digest_replica
from crdtstream.core.values.batch_budget import NAME_SHARE
from crdtstream.core.values.entry_id import LIBERAL
from crdtstream.protocols import codec
from crdtstream.scenarios.reply import ReplyError, read_reply
from crdtstream.settings.config import Limits
from simulations.cluster import Cluster
from simulations.network import Connection, Network, Watcher

KIB = 1 << 10
WIDE = Limits(peer_timeout_ms=1 << 40)
NARROW = replace(WIDE, batch_bytes_max=256 * KIB, message_bytes=16 * KIB, message_bytes_max=64 * KIB)
BIG = b"v" * (384 * KIB)
PART = b"v" * (32 * KIB)


class Closed(Watcher):
    """Why links were closed."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def closed(self, world: Network, connection: Connection, end: int, reason: str) -> None:
        self.reasons.append(reason)


def pair(first: Limits = WIDE, second: Limits = NARROW, **more: object) -> tuple[Cluster, Closed]:
    cluster = Cluster(2, LIBERAL, limits={1: first, 2: second}, **more)  # type: ignore[arg-type]
    closed = Closed()
    cluster.watch(closed)
    settle(cluster)
    return cluster, closed


def settle(cluster: Cluster) -> None:
    for _ in range(5):
        cluster.sync()
        for machine in cluster.machines.values():
            machine.sync()
        cluster.tick(1_000)
    cluster.sync()
    cluster.check()


def run(cluster: Cluster, *argv: bytes, number: int = 1) -> object:
    return read_reply(cluster.execute(number, list(argv)) or b"")


def assert_equal(cluster: Cluster, closed: Closed) -> None:
    """A link that was never refused brings what is written last, too."""
    assert isinstance(run(cluster, b"XADD", b"last", b"*", b"f", b"v"), str)
    settle(cluster)
    assert closed.reasons == []
    assert len({digest_replica(cluster.node(number).replica) for number in cluster.machines}) == 1
    assert run(cluster, b"XLEN", b"last", number=2) == run(cluster, b"XLEN", b"last", number=1)


def refused(reply: object) -> str:
    assert isinstance(reply, ReplyError), reply
    text = reply.text
    assert "batch_bytes_max = 262144 of region 2" in text and "raise batch_bytes_max there" in text, text
    return text


def long_stream(cluster: Cluster, key: bytes = b"s") -> None:
    """More than the peer takes in one batch, written in many."""
    for _ in range(12):
        run(cluster, b"XADD", key, b"*", b"f", PART)


def batch_sizes(cluster: Cluster, number: int = 1) -> list[int]:
    log = cluster.machines[number].log
    sizes: list[int] = []
    position = log.first_position
    while position <= log.last_position:
        for at, kind, payload in log.read(position, 1 << 20):
            position = at + 1
            sizes += [len(payload)] if kind == codec.BATCH else []
    return sizes


# The six ways of issue 28


def test_an_entry_that_a_peer_cannot_take_is_refused() -> None:
    cluster, closed = pair()
    assert "the entry takes" in refused(run(cluster, b"XADD", b"s", b"*", b"f", BIG))
    assert run(cluster, b"EXISTS", b"s") == 0
    assert_equal(cluster, closed)


def test_a_transaction_that_a_peer_cannot_take_is_refused_as_a_whole() -> None:
    cluster, closed = pair()
    run(cluster, b"MULTI")
    for _ in range(12):
        run(cluster, b"XADD", b"s", b"*", b"f", PART)
    text = refused(run(cluster, b"EXEC"))
    assert text.startswith("EXECABORT Transaction discarded because the transaction takes")
    assert run(cluster, b"EXISTS", b"s") == 0
    assert_equal(cluster, closed)


def test_a_transaction_that_fits_stays_in_one_batch() -> None:
    cluster, closed = pair()
    before = len(batch_sizes(cluster))
    turn = [[b"XADD", b"s", b"*", b"f", PART]] * 3
    turn += [[b"MULTI"], *[[b"XADD", b"t", b"*", b"f", PART]] * 6, [b"EXEC"], *[[b"XADD", b"s", b"*", b"f", PART]] * 3]
    cluster.execute_turn(1, turn)
    sizes = batch_sizes(cluster)[before:]
    assert any(6 * len(PART) < size < 7 * len(PART) for size in sizes), sizes
    assert_equal(cluster, closed)


def test_a_pipeline_is_as_many_batches_as_it_needs() -> None:
    cluster, closed = pair()
    cluster.execute_turn(1, [[b"XADD", b"s", b"*", b"f", PART]] * 12)
    assert run(cluster, b"XLEN", b"s") == 12
    assert max(batch_sizes(cluster)) <= NARROW.batch_bytes_max
    assert_equal(cluster, closed)


@pytest.mark.parametrize(
    "argv",
    [
        [b"RENAME", b"s", b"t"],
        [b"RENAMENX", b"s", b"t"],
        [b"COPY", b"s", b"t"],
        [b"MOVE", b"s", b"3"],
        [b"SWAPDB", b"0", b"3"],
    ],
    ids=lambda argv: argv[0].decode(),
)
def test_a_copy_that_a_peer_cannot_take_is_refused(argv: list[bytes]) -> None:
    cluster, closed = pair()
    long_stream(cluster)
    refused(run(cluster, *argv))
    run(cluster, b"MULTI")
    run(cluster, *argv)
    assert refused(run(cluster, b"EXEC")).startswith("EXECABORT")
    assert run(cluster, b"XLEN", b"s") == 12
    assert run(cluster, b"EXISTS", b"t") == 0
    assert_equal(cluster, closed)


def test_a_copy_in_a_transaction_counts_what_was_queued_before_it() -> None:
    cluster, closed = pair()
    run(cluster, b"MULTI")
    for _ in range(5):
        run(cluster, b"XADD", b"s", b"*", b"f", PART)
    run(cluster, b"COPY", b"s", b"t")
    replies = run(cluster, b"EXEC")
    assert isinstance(replies, list)
    refused(replies[-1])
    assert (run(cluster, b"XLEN", b"s"), run(cluster, b"EXISTS", b"t")) == (5, 0)
    assert_equal(cluster, closed)


def test_a_payload_that_a_peer_cannot_take_is_not_restored() -> None:
    cluster, closed = pair()
    long_stream(cluster)
    payload = (cluster.execute(1, [b"DUMP", b"s"]) or b"").partition(b"\r\n")[2][:-2]
    reply = run(cluster, b"RESTORE", b"t", b"0", payload)
    assert isinstance(reply, ReplyError)
    assert "expands to more than the 262144 bytes that batch_bytes_max = 262144 of region 2" in reply.text
    assert run(cluster, b"EXISTS", b"t") == 0
    assert_equal(cluster, closed)


# Others of the kind


@pytest.mark.parametrize("command", [b"XADD n * f v", b"XGROUP CREATE n g $ MKSTREAM", b"XGROUP CREATE s n 0"])
def test_names_that_would_be_in_every_effect_are_bounded(command: bytes) -> None:
    cluster, closed = pair()
    run(cluster, b"XADD", b"s", b"*", b"f", b"v")
    name = b"n" * (40 * KIB)
    text = refused(run(cluster, *[name if word == b"n" else word for word in command.split()]))
    assert "the name of the" in text and "has 40960 bytes" in text
    assert_equal(cluster, closed)


def test_a_flush_of_many_keys_is_many_batches() -> None:
    cluster, closed = pair()
    for at in range(60):
        run(cluster, b"XADD", b"%d" % at + b"n" * (10 * KIB), b"*", b"f", b"v")
    assert run(cluster, b"FLUSHALL") == "OK"
    assert max(batch_sizes(cluster)) <= NARROW.batch_bytes_max
    assert_equal(cluster, closed)


def test_a_flush_that_is_too_large_for_a_transaction_is_refused() -> None:
    cluster, closed = pair()
    for at in range(60):
        run(cluster, b"XADD", b"%d" % at + b"n" * (10 * KIB), b"*", b"f", b"v")
    run(cluster, b"MULTI")
    run(cluster, b"FLUSHALL")
    assert refused(run(cluster, b"EXEC")).startswith("EXECABORT")
    assert run(cluster, b"DBSIZE") == 60
    assert_equal(cluster, closed)


@pytest.mark.parametrize("strategy", [b"KEEPREF", b"DELREF"])
def test_a_removal_of_many_scattered_entries_is_many_batches(strategy: bytes) -> None:
    small = replace(NARROW, batch_bytes_max=64 * KIB)
    cluster, closed = pair(small, small)
    cluster.execute_turn(1, [[b"XADD", b"s", b"1-%d" % at, b"f", b"v"] for at in range(1, 9_001)])
    run(cluster, b"XGROUP", b"CREATE", b"s", b"g", b"0")
    run(cluster, b"XREADGROUP", b"GROUP", b"g", b"c", b"STREAMS", b"s", b">")
    ids = [b"1-%d" % at for at in range(1, 9_001, 2)]
    fates = run(cluster, b"XDELEX", b"s", strategy, b"IDS", b"%d" % len(ids), *ids)
    assert fates == [1] * len(ids)
    assert max(batch_sizes(cluster)) <= small.batch_bytes_max
    assert_equal(cluster, closed)


def test_a_copy_counts_its_groups() -> None:
    small = replace(NARROW, batch_bytes_max=64 * KIB)
    cluster, closed = pair(small, small)
    run(cluster, b"XADD", b"s", b"*", b"f", b"v")
    names = [b"%d" % at + b"n" * 5_000 for at in range(7)]
    for name in names:
        assert run(cluster, b"XGROUP", b"CREATE", b"s", name, b"0") == "OK"
        run(cluster, b"XREADGROUP", b"GROUP", name, b"c", b"NOACK", b"STREAMS", b"s", b">")
    assert isinstance(run(cluster, b"COPY", b"s", b"t"), ReplyError)
    for name in names[1:]:
        run(cluster, b"XGROUP", b"DESTROY", b"s", name)
    assert run(cluster, b"COPY", b"s", b"t") == 1
    assert max(batch_sizes(cluster)) <= small.batch_bytes_max
    assert_equal(cluster, closed)


# What a log holds already


def test_a_batch_that_a_newcomer_cannot_take_comes_as_a_state() -> None:
    cluster, closed = pair(absent=(2,))
    assert isinstance(run(cluster, b"XADD", b"s", b"*", b"f", BIG), str)
    cluster.machines[1].config = replace(cluster.machines[1].config, limits=NARROW)
    cluster.add(2, 1)
    cluster.machines[1].config = replace(cluster.machines[1].config, limits=WIDE)
    settle(cluster)
    assert_equal(cluster, closed)
    assert any("the state transfer from region 1 is joined" in news.text for news in cluster.node(2).exchange.news)
    assert isinstance(run(cluster, b"XADD", b"s", b"*", b"f", BIG), ReplyError), "now its bound is known"
    assert run(cluster, b"XADD", b"s", b"*", b"f", PART, number=2)
    assert_equal(cluster, closed)
    assert sum("is joined" in news.text for news in cluster.node(2).exchange.news) == 1, (
        "batches go on behind the state"
    )


def test_a_region_that_starts_again_with_a_lower_limit_is_sent_a_state() -> None:
    cluster, closed = pair(second=WIDE)
    cluster.cut(1, 2)
    assert isinstance(run(cluster, b"XADD", b"s", b"*", b"f", BIG), str)
    cluster.machines[2].config = replace(cluster.machines[2].config, limits=NARROW)
    cluster.restart(2)
    cluster.heal(1, 2)
    closed.reasons.clear()
    settle(cluster)
    assert_equal(cluster, closed)
    assert run(cluster, b"XLEN", b"s", number=2) == 1


@pytest.mark.parametrize("how", ["log", "checkpoint"])
def test_a_region_that_starts_while_a_peer_is_away_knows_what_that_one_takes(how: str) -> None:
    cluster, closed = pair()
    if how == "checkpoint":
        cluster.machines[1].cut_log()
    cluster.cut(1, 2)
    cluster.restart(1)
    assert "the entry takes" in refused(run(cluster, b"XADD", b"s", b"*", b"f", BIG))
    cluster.heal(1, 2)
    closed.reasons.clear()
    settle(cluster)
    assert_equal(cluster, closed)


# Bounds travel


def test_the_smallest_bound_counts_beyond_the_next_region() -> None:
    cluster = Cluster(3, LIBERAL, pairs=[(1, 2), (2, 3)], limits={1: WIDE, 2: WIDE, 3: NARROW})
    settle(cluster)
    budget = cluster.node(1).replica.budget
    assert (budget.limit, budget.region) == (NARROW.batch_bytes_max, 3)
    assert isinstance(run(cluster, b"XADD", b"s", b"*", b"f", BIG), ReplyError)


def test_a_region_writes_less_at_once_than_the_others_take() -> None:
    cluster, closed = pair(replace(WIDE, write_bytes_max=128 * KIB), WIDE)
    text = run(cluster, b"XADD", b"s", b"*", b"f", BIG)
    assert isinstance(text, ReplyError)
    assert "write_bytes_max = 131072 of region 1" in text.text and "raise write_bytes_max there" in text.text
    assert isinstance(run(cluster, b"XADD", b"s", b"*", b"f", BIG, number=2), str), "region 1 takes what others write"
    settle(cluster)
    assert_equal(cluster, closed)
    assert (cluster.node(1).replica.budget.name, cluster.node(2).replica.budget.name) == ("write_bytes_max",) * 2


def test_an_entry_of_the_largest_default_size_fits_with_its_name() -> None:
    limits, longest_name = Limits(), Limits().write_bytes_max // NAME_SHARE
    assert limits.entry_bytes_max + longest_name + KIB <= limits.write_bytes_max
    assert limits.entry_bytes_max < limits.bulk_bytes_max, "what is larger gets an error that names the limit"


def test_a_bound_ends_with_its_region() -> None:
    cluster, _ = pair()
    assert cluster.node(1).replica.budget.region == 2
    cluster.stop(2)
    cluster.tick(10_000)
    assert run(cluster, b"CRDT.EVICT", b"2", b"FORCE") is not None
    settle(cluster)
    assert cluster.node(1).replica.budget.region == 1
    assert isinstance(run(cluster, b"XADD", b"s", b"*", b"f", BIG), str)


def test_messages_are_no_larger_than_the_peer_takes() -> None:
    cluster, closed = pair(second=replace(NARROW, message_bytes=1 * KIB, message_bytes_max=4 * KIB))
    sizes: list[int] = []

    class Sizes(Watcher):
        def sent(self, world: Network, connection: Connection, sender: int, message: object, data: bytes) -> None:
            sizes.append(len(data))

    cluster.watch(Sizes())
    cluster.execute_turn(1, [[b"XADD", b"s", b"*", b"f", b"v" * 500]] * 100)
    settle(cluster)
    assert 1 * KIB < max(sizes) <= 4 * KIB
    assert_equal(cluster, closed)
