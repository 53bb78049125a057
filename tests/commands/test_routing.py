"""A region's shard answers what it serves and redirects the rest: every way in which a request can arrive.

The words are compared with those of real servers in `test_routing_parity.py`.
"""

from __future__ import annotations

import pytest

from crdtstream.commands.dispatch import find
from crdtstream.commands.routing import CROSSSLOT, NOT_SERVED
from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.protocols.hash_slots import hash_slot_of
from tests.commands.harness import Region, every_command
from tests.commands.test_table_keys import REQUESTS, lines

# Keys of the first and of the second of two shards, and one of the first with another hash slot.
OWN, FOREIGN, OTHER = "b", "a", "bar"
ADDRESSES = [ShardAddress("10.0.0.1", 7000, 7100), ShardAddress("10.0.0.2", 7001, 7101)]
MOVED = b"-MOVED 15495 10.0.0.2:7001\r\n"
CROSSED = b"-%b\r\n" % CROSSSLOT.encode()
# Keys of the last two say which shard is meant, and nothing else.
ROUTED = [*lines(REQUESTS), "CRDT.TOKEN s", "CRDT.AWAIT t1-token 1 s"]


def shard(own: int = 0, addresses: list[ShardAddress] = ADDRESSES) -> Region:
    region = Region()
    region.context.shards = map_of("c", 1, own, addresses, 1)
    return region


def test_the_keys_of_these_tests() -> None:
    shards = map_of("c", 1, 0, ADDRESSES, 1)
    assert shards.serves(OWN.encode()) and shards.serves(OTHER.encode()) and not shards.serves(FOREIGN.encode())
    assert hash_slot_of(OWN.encode()) != hash_slot_of(OTHER.encode())


def on_keys(line: str, key: str) -> list[str]:
    """The request with this name, in hash tags that keep it in its shard, for each key."""
    request = line.split()
    for at in find([word.encode() for word in request]).keys.positions([word.encode() for word in request]):
        request[at] = f"{{{key}}}{request[at]}"
    return request


@pytest.mark.parametrize("line", ROUTED)
def test_every_command_with_a_key_is_redirected(line: str) -> None:
    region = shard()
    before = region.replica.prepared
    assert region.run(*on_keys(line, FOREIGN)) == MOVED
    assert region.replica.prepared == before and not region.replica.keyspace.keys(0)


@pytest.mark.parametrize("line", ROUTED)
def test_no_command_on_own_keys_is_redirected(line: str) -> None:
    region = shard()
    region.run(*on_keys(line, OWN))
    assert not {"MOVED", "CROSSSLOT", "CLUSTERDOWN"}.intersection(region.context.statistics.errors)


def test_every_command_with_a_key_is_among_the_requests() -> None:
    """So a command that is added is redirected, too; shard channels have requests of their own below."""
    named = {find([word.encode() for word in line.split()]).name for line in ROUTED}
    keyed = {row.name for row in every_command() if row.keys.first or row.keys.keyword}
    assert keyed - named == {"spublish", "ssubscribe", "sunsubscribe"}


@pytest.mark.parametrize(
    "text",
    [
        f"DEL {OWN} {OTHER}",
        f"DEL {OWN} {FOREIGN}",
        f"DEL {FOREIGN} {OWN}",
        f"RENAME {OWN} {OTHER}",
        f"XREAD BLOCK 0 STREAMS {OWN} {OTHER} 0 0",
        f"XREADGROUP GROUP g c BLOCK 0 STREAMS {OWN} {FOREIGN} > >",
        f"WATCH {OWN} {OTHER}",
        f"XGROUP CREATE {OWN} g 0 CRDT DEADLETTER {OTHER} MAXDELIVERIES 3",
        f"CRDT.GROUP SET {OWN} g DEADLETTER {FOREIGN} MAXDELIVERIES 3",
        f"SSUBSCRIBE {OWN} {OTHER}",
    ],
)
def test_keys_of_several_hash_slots_cross(text: str) -> None:
    region = shard()
    assert region.line(text) == CROSSED
    assert not region.replica.keyspace.keys(0) and not region.client.parked and not region.client.watched


def test_a_dead_letter_key_of_the_same_hash_slot_is_taken() -> None:
    region = shard()
    region.line(f"XGROUP CREATE {OWN} g 0 MKSTREAM")
    assert region.line(f"CRDT.GROUP SET {OWN} g DEADLETTER dead{{{OWN}}} MAXDELIVERIES 3") == b"+OK\r\n"


def test_a_request_without_keys_runs_where_it_arrives() -> None:
    region = shard()
    assert region.line("DBSIZE") == b":0\r\n"
    assert region.line("PUBLISH a hi") == b":0\r\n"
    assert region.line("CRDT.DIGEST") not in (None, MOVED)
    assert region.line("SUNSUBSCRIBE") == b"*3\r\n$12\r\nsunsubscribe\r\n$-1\r\n:0\r\n"


def test_shard_channels_are_routed_as_keys() -> None:
    region = shard()
    for text in (f"SPUBLISH {FOREIGN} hi", f"SSUBSCRIBE {FOREIGN}", f"SUNSUBSCRIBE {FOREIGN}"):
        assert region.line(text) == MOVED
    assert region.line(f"SPUBLISH {OWN} hi") == b":0\r\n"


def test_a_client_of_the_tls_port_is_sent_to_a_tls_port() -> None:
    region = shard()
    region.client.encrypted = True
    assert region.line(f"XLEN {FOREIGN}") == b"-MOVED 15495 10.0.0.2:7101\r\n"


@pytest.mark.parametrize(("encrypted", "only"), [(False, (0, 7101)), (True, (7001, 0))])
def test_a_shard_with_one_kind_of_port_is_named_with_it(encrypted: bool, only: tuple[int, int]) -> None:
    region = shard(addresses=[ADDRESSES[0], ShardAddress("10.0.0.2", *only)])
    region.client.encrypted = encrypted
    assert region.line(f"XLEN {FOREIGN}") == b"-MOVED 15495 10.0.0.2:%d\r\n" % sum(only)


@pytest.mark.parametrize(("local", "host"), [("10.0.0.7:7000", "10.0.0.7"), ("[fe80::1]:7000", "fe80::1")])
def test_without_a_host_a_client_stays_at_the_host_where_it_is(local: str, host: str) -> None:
    region = shard(addresses=[ShardAddress("", 7000, 0), ShardAddress("", 7001, 0)])
    region.client.local_address = local
    assert region.line(f"XLEN {FOREIGN}") == f"-MOVED 15495 {host}:7001\r\n".encode()
    assert f" {host}:7001@0 master ".encode() in (region.line("CLUSTER NODES") or b"")
    for text in ("CLUSTER SLOTS", "CLUSTER SHARDS"):
        assert f"${len(host)}\r\n{host}\r\n".encode() in (region.line(text) or b"")


def test_the_hash_slots_of_a_shard_without_an_address_are_not_served() -> None:
    region = shard(addresses=[ADDRESSES[0], ShardAddress("", 0, 0)])
    assert region.line(f"XLEN {FOREIGN}") == b"-%b\r\n" % NOT_SERVED.encode()
    assert region.line(f"XLEN {OWN}") == b":0\r\n"


def test_a_map_with_a_higher_epoch_holds_for_the_next_request() -> None:
    region = shard()
    assert region.line(f"XLEN {FOREIGN}") == MOVED
    region.context.shards = map_of("c", 1, 0, [ADDRESSES[0], ShardAddress("10.0.0.9", 9001, 0)], 2)
    assert region.line(f"XLEN {FOREIGN}") == b"-MOVED 15495 10.0.0.9:9001\r\n"


# Transactions


def test_a_redirected_command_makes_a_transaction_fail() -> None:
    region = shard()
    region.line("MULTI")
    assert region.line(f"XADD {OWN} 1-1 f v") == b"+QUEUED\r\n"
    assert region.line(f"XADD {FOREIGN} 1-1 f v") == MOVED
    assert region.line("EXEC") == b"-EXECABORT Transaction discarded because of previous errors.\r\n"
    assert region.line(f"EXISTS {OWN}") == b":0\r\n"


def test_what_a_transaction_queues_must_have_one_hash_slot() -> None:
    region = shard()
    region.line("MULTI")
    for key in (OWN, OTHER):
        assert region.line(f"XADD {key} 1-1 f v") == b"+QUEUED\r\n"
    assert region.line("EXEC") == CROSSED
    assert region.client.transaction is None and region.line(f"EXISTS {OWN}") == b":0\r\n"
    assert region.line("EXEC") == b"-ERR EXEC without MULTI\r\n"


def test_a_transaction_in_one_hash_slot_runs() -> None:
    region = shard()
    region.line(f"WATCH {OWN}")
    region.line("MULTI")
    region.line(f"XADD {OWN} 1-1 f v")
    region.line("PING")
    region.line(f"XADD {{{OWN}}}2 1-1 f v")
    assert region.line("EXEC") == b"*3\r\n$3\r\n1-1\r\n+PONG\r\n$3\r\n1-1\r\n"


# Counting, and the order of checks


def test_a_redirection_counts_as_rejected_and_under_its_code() -> None:
    region = shard()
    region.line(f"XLEN {FOREIGN}")
    region.line(f"DEL {OWN} {OTHER}")
    statistics = region.context.statistics
    assert statistics.errors == {"MOVED": 1, "CROSSSLOT": 1}
    assert (statistics.tally("xlen").rejected, statistics.tally("xlen").calls) == (1, 0)


def test_rights_come_before_the_shard_and_memory_after_it() -> None:
    region = shard()
    region.line("ACL SETUSER u on nopass +@all ~b")
    reader = region.connect()
    assert region.line("AUTH u x", client=reader) == b"+OK\r\n"
    denied = region.line(f"XADD {FOREIGN} * f v", client=reader)
    assert denied is not None and denied.startswith(b"-NOPERM")
    region.context.standing.memory_short = True
    assert region.line(f"XADD {FOREIGN} * f v") == MOVED
    oom = region.line(f"XADD {OWN} * f v")
    assert oom is not None and oom.startswith(b"-OOM")


def test_a_paused_region_redirects_at_once() -> None:
    region = shard()
    region.line("CLIENT PAUSE 100000 ALL")
    assert region.line(f"XADD {FOREIGN} * f v") == MOVED


def test_a_region_of_one_shard_serves_every_key() -> None:
    region = Region()
    assert region.context.shards is None
    assert region.line(f"EXISTS {OWN} {FOREIGN} {OTHER}") == b":0\r\n"


def test_the_other_shard_serves_what_this_one_does_not() -> None:
    region = shard(own=1)
    assert region.line(f"XLEN {FOREIGN}") == b":0\r\n"
    assert region.line(f"XLEN {OWN}") == b"-MOVED %d 10.0.0.1:7000\r\n" % hash_slot_of(OWN.encode())
