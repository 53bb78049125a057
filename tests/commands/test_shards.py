"""CLUSTER of a region with several shards, where no real server says how: what is refused, keys in slices, addresses,
and what other shards hear.
"""

from __future__ import annotations

import pytest

from crdtstream.commands.shards import KEYS_READ, REFUSED
from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.connections.slicing import go_on
from crdtstream.protocols.hash_slots import hash_slot_of
from crdtstream.region.node import Ready
from simulations.machine import Machine
from tests.commands.harness import Region, every_command
from tests.region.test_node import START_MS, region_of

ADDRESSES = [ShardAddress("10.0.0.1", 7000, 0), ShardAddress("10.0.0.2", 7001, 7101), ShardAddress("", 0, 0)]
ARGUMENTS = {
    "addslotsrange": "1 2",
    "delslotsrange": "1 2",
    "meet": "127.0.0.1 7000",
    "setslot": "1 STABLE",
    "slot-stats": "SLOTSRANGE 0 1",
}


def shard(own: int = 0, count: int = 2) -> Region:
    region = Region()
    region.context.shards = map_of("c", 1, own, ADDRESSES[:count], 7)
    return region


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_change_the_map_is_refused_and_says_why(name: str) -> None:
    row = next(row for row in every_command() if row.name == f"cluster|{name}")
    words = ARGUMENTS.get(name, "1" if row.arity in (3, -3) else "")
    assert shard().line(f"CLUSTER {name} {words}") == (
        f"-ERR CLUSTER {name.upper()} is refused: {REFUSED[name]}\r\n".encode()
    )


@pytest.mark.parametrize("text", ["ACL SAVE", "CONFIG REWRITE"])
def test_files_of_the_region_are_not_written_by_a_shard(text: str) -> None:
    region = shard()
    region.configure(aclfile="users.acl", config_file="crdtstream.toml")
    reply = region.line(text)
    assert reply is not None and reply.startswith(b"-ERR %b is refused, because all shards" % text.encode())
    assert not region.context.requests.acl and not region.context.requests.rewrite


def test_a_shard_without_an_address_is_told_as_lost() -> None:
    region = shard(count=3)
    assert b":10922\r\n" in (region.line("CLUSTER SLOTS") or b"") and b":10923\r\n" not in (
        region.line("CLUSTER SLOTS") or b""
    )
    nodes = region.line("CLUSTER NODES") or b""
    assert b" :0@0 master,noaddr - 0 0 7 disconnected 10923-16383\n" in nodes
    info = region.line("CLUSTER INFO") or b""
    assert b"cluster_state:fail\r\n" in info and b"cluster_slots_ok:10923\r\ncluster_slots_pfail:0\r\n" in info
    assert b"$6\r\nhealth\r\n$4\r\nfail\r\n" in (region.line("CLUSTER SHARDS") or b"")


def test_a_client_of_the_tls_port_is_told_tls_ports() -> None:
    region = shard()
    assert b":7001\r\n" in (region.line("CLUSTER SLOTS") or b"")
    region.client.encrypted = True
    assert b":7101\r\n" in (region.line("CLUSTER SLOTS") or b"") and b"10.0.0.2:7101@0" in (
        region.line("CLUSTER NODES") or b""
    )
    assert b"$4\r\nport\r\n:7001\r\n$8\r\ntls-port\r\n:7101\r\n" in (region.line("CLUSTER SHARDS") or b"")


def test_shard_ids_tell_shards_apart() -> None:
    ids = [shard(own).line("CLUSTER MYSHARDID") for own in (0, 1)]
    assert ids[0] != ids[1] and all(one is not None and one.startswith(b"$40\r\n") for one in ids)


def test_the_epoch_of_the_map_is_that_of_all_shards() -> None:
    assert b"cluster_current_epoch:7\r\ncluster_my_epoch:7\r\n" in (shard().line("CLUSTER INFO") or b"")


# Keys of a hash slot


def test_the_keys_of_a_hash_slot_are_found_in_several_turns() -> None:
    region = shard()
    hash_slot = hash_slot_of(b"b")
    names = [b"{b}%d" % number for number in range(5)] + [b"x%d" % number for number in range(KEYS_READ + 10)]
    wanted = [name for name in names if hash_slot_of(name) == hash_slot]
    for name in names:
        region.replica.add_entry((0, name), (1, 1), [b"f", b"v"])
    assert region.line(f"CLUSTER COUNTKEYSINSLOT {hash_slot}") is None
    while not go_on(region.context):
        pass
    for waiter in region.context.parking.keyless():
        region.serve(waiter)
    assert region.late_replies(region.client) == [b":%d\r\n" % len(wanted)]
    region.line("MULTI")
    region.line(f"CLUSTER GETKEYSINSLOT {hash_slot} 3")
    region.line(f"CLUSTER GETKEYSINSLOT {hash_slot} 9")
    reply = region.line("EXEC") or b""
    assert reply.startswith(b"*2\r\n*3\r\n") and all(name in reply for name in wanted)


def test_deleted_keys_and_those_of_other_shards_are_not_counted() -> None:
    region = shard()
    region.line("XADD b 1-1 f v")
    region.replica.add_entry((0, b"a"), (1, 1), [b"f", b"v"])
    for key, count in (("b", 1), ("a", 0)):
        hash_slot = hash_slot_of(key.encode())
        assert region.line(f"CLUSTER COUNTKEYSINSLOT {hash_slot}") == b":%d\r\n" % count
        assert (region.line(f"CLUSTER GETKEYSINSLOT {hash_slot} 5") == b"*0\r\n") == (count == 0)
    region.line("DEL b")
    assert region.line(f"CLUSTER COUNTKEYSINSLOT {hash_slot_of(b'b')}") == b":0\r\n"


# What other shards of the region hear


def machine(sharded: bool = True) -> Machine:
    region = region_of()
    if sharded:
        region.node.follow_shards(map_of("c", 1, 0, ADDRESSES[:2], 1))
    return region


def ready_after(region: Machine, *texts: str) -> Ready:
    for text in texts:
        region.node.execute(2, text.encode().split(), START_MS)
    ready = region.node.ready()
    assert ready is not None
    return ready


def test_what_is_published_goes_to_the_other_shards_once() -> None:
    region = machine()
    assert ready_after(region, "PUBLISH a hi", "SPUBLISH b no", "PUBLISH c you").published == [
        (b"a", b"hi"),
        (b"c", b"you"),
    ]
    assert ready_after(region, "PING").published == []


def test_it_goes_out_even_if_the_publisher_wants_no_replies() -> None:
    region = machine()
    region.execute(b"CLIENT REPLY OFF".split(), START_MS, 2)
    ready = ready_after(region, "PUBLISH a hi")
    assert ready.published == [(b"a", b"hi")] and not b"".join([reply for _, reply in ready.replies])


def test_a_region_of_one_shard_has_nobody_to_tell() -> None:
    region = machine(sharded=False)
    assert ready_after(region, "PUBLISH a hi").published == []
    assert not region.node.context.pubsub.published


def test_what_another_shard_published_reaches_listeners_and_goes_no_further() -> None:
    region = machine()
    region.execute(b"SUBSCRIBE a".split(), START_MS, 2)
    region.execute(b"PSUBSCRIBE *".split(), START_MS, 3)
    region.node.receive_published(b"a", b"hi")
    ready = region.node.ready()
    assert ready is not None and ready.published == []
    assert dict(ready.replies) == {
        2: b"*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n",
        3: b"*4\r\n$8\r\npmessage\r\n$1\r\n*\r\n$1\r\na\r\n$2\r\nhi\r\n",
    }


def test_the_last_turn_tells_what_was_published() -> None:
    region = machine()
    region.node.execute(2, b"PUBLISH a hi".split(), START_MS)
    assert region.node.stop().published == [(b"a", b"hi")]
