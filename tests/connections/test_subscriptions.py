"""The registry of subscriptions, beside a naive model."""

from __future__ import annotations

from fnmatch import fnmatchcase

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.connections.acl.users import open_user
from crdtstream.connections.client import Client
from crdtstream.connections.subscriptions import CHANNEL, KINDS, PATTERN, SHARD, Subscriptions

NAMES = st.sampled_from([b"a", b"ab", b"b", b"a*", b"*"])
STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "remove", "forget"]), st.integers(0, 2), st.sampled_from(KINDS), NAMES)
)


def fits(kind: int, name: bytes, channel: bytes) -> bool:
    return fnmatchcase(channel.decode(), name.decode()) if kind == PATTERN else name == channel


@given(STEPS)
def test_model(steps: list[tuple[str, int, int, bytes]]) -> None:
    registry = Subscriptions()
    clients = [Client(number, "", 0, open_user()) for number in range(3)]
    model: set[tuple[int, int, bytes]] = set()
    for what, number, kind, name in steps:
        if what == "add":
            registry.add(clients[number], kind, name)
            model.add((number, kind, name))
        elif what == "remove":
            registry.remove(clients[number], kind, name)
            model.discard((number, kind, name))
        else:
            registry.forget(clients[number])
            model = {row for row in model if row[0] != number}
        registry.check()
    assert registry.clients() == len({row[0] for row in model})
    for kind in KINDS:
        assert set(registry.names(kind)) == {row[2] for row in model if row[1] == kind}
    for channel in (b"a", b"ab", b"c"):
        wanted = [row for row in model if row[1] != SHARD and fits(row[1], row[2], channel)]
        assert registry.publish(channel, b"x") == len(wanted) == len(registry.drain())
        assert registry.publish_shard(channel, b"x") == len([row for row in model if row[1:] == (SHARD, channel)])
        registry.drain()
    assert registry.count(CHANNEL, b"a") == len([row for row in model if row[1:] == (CHANNEL, b"a")])
