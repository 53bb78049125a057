"""CRDT.TOKEN and CRDT.AWAIT in regions of several shards: tokens say of which shard they are, and are joined."""

from __future__ import annotations

import pytest

from crdtstream.commands.sessions import TokenWaiter
from crdtstream.connections.shards import ShardAddress, map_of
from crdtstream.core.tokens import TOKEN, encode, encode_of_shard
from crdtstream.core.values.causality import VersionVector
from tests.commands.stream_region import Region

# Their hash slots are 3300 and 15495.
KEYS = {0: "b", 1: "a"}
OTHER_SHARDS = b"-ERR the token was changed, or is of a cluster with another number of shards: get one from CRDT.TOKEN"


def shard(own: int, origin: int = 1, count: int = 2) -> Region:
    region = Region(origin)
    addresses = [ShardAddress("127.0.0.1", 7000 + number, 0) for number in range(count)]
    region.context.shards = map_of("", 1, own, addresses, 1)
    return region


def token_of(region: Region, *keys: str) -> bytes:
    reply = region.call("CRDT.TOKEN", *keys)
    assert reply is not None and reply.startswith(b"$")
    return reply.split(b"\r\n")[1]


def written(own: int, origin: int = 1) -> Region:
    region = shard(own, origin)
    region.say(f"XADD {KEYS[own]} * f v")
    return region


def test_a_token_says_of_which_shard_it_is() -> None:
    token = token_of(written(1))
    assert token.startswith(b"1:t1-") and token == encode_of_shard("", [(1, 1)], 1, 2)


def test_a_shard_awaits_its_own_part_of_a_joined_text() -> None:
    zero, one = written(0, 2), written(1, 2)
    joined = b".".join([token_of(zero), token_of(one)])
    here = shard(1)
    assert here.call("CRDT.AWAIT", joined, 50) is None
    here.hear(one)
    here.pass_time(50)
    assert here.call("CRDT.AWAIT", joined, 50) == b"+OK\r\n"


def test_parts_of_one_shard_are_awaited_together() -> None:
    first, second = written(1, 2), written(1, 3)
    here = shard(1)
    here.hear(first)
    joined = b".".join([token_of(second), token_of(first)])
    assert here.call("CRDT.AWAIT", joined, 1000) is None


def test_a_text_without_an_own_part_is_satisfied() -> None:
    token = token_of(written(1, 2))
    assert shard(0).call("CRDT.AWAIT", token, 0) == b"+OK\r\n"


def test_tokens_of_a_region_of_one_shard_may_be_joined() -> None:
    region = Region()
    parts = [encode(TOKEN, "", VersionVector({origin: 1}).items()) for origin in (2, 3)]
    assert region.call("CRDT.AWAIT", b".".join(parts), 0) is None
    (waiter,) = region.context.parking.keyless()
    assert isinstance(waiter, TokenWaiter) and waiter.wanted == VersionVector({2: 1, 3: 1})


@pytest.mark.parametrize(
    ("token", "error"),
    [
        (encode(TOKEN, "", []), OTHER_SHARDS),
        (encode_of_shard("", [], 0, 3), OTHER_SHARDS),
        (encode_of_shard("", [], 2, 3), OTHER_SHARDS),
        (b"1" + encode_of_shard("", [], 0, 2)[1:], OTHER_SHARDS),
        (b"0" + encode_of_shard("", [], 0, 2), OTHER_SHARDS),
        (encode_of_shard("", [], 0, 2) + b".", b"-ERR invalid token: it was changed"),
        (encode_of_shard("", [], 1, 2)[:-1], b"-ERR invalid token: it was changed"),
        (b"1:t9-x", b"-ERR the token is of a newer release"),
        (encode_of_shard("bank", [], 1, 2), b"-ERR the token is of another cluster"),
    ],
)
def test_a_text_with_one_part_that_does_not_belong_here_is_refused(token: bytes, error: bytes) -> None:
    for text in (token, encode_of_shard("", [], 0, 2) + b"." + token):
        reply = shard(0).call("CRDT.AWAIT", text, 0)
        assert reply is not None and reply.startswith(error)


def test_a_region_of_one_shard_refuses_tokens_of_shards() -> None:
    reply = Region().call("CRDT.AWAIT", encode_of_shard("", [], 0, 2), 0)
    assert reply is not None and reply.startswith(OTHER_SHARDS)


def test_keys_say_which_shard_is_asked() -> None:
    here = written(1)
    token = token_of(here, KEYS[1])
    assert here.call("CRDT.AWAIT", token, 0, KEYS[1]) == b"+OK\r\n"
    moved = b"-MOVED 3300 127.0.0.1:7000\r\n"
    assert here.call("CRDT.TOKEN", KEYS[0]) == here.call("CRDT.AWAIT", token, 0, KEYS[0]) == moved
    assert (here.call("CRDT.TOKEN", "a", "b") or b"").startswith(b"-CROSSSLOT")
    assert here.call("COMMAND", "GETKEYS", "CRDT.AWAIT", token, 0, "a") == b"*1\r\n$1\r\na\r\n"
