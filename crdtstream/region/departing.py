"""A shard that moves to another machine, as its clients see it: their requests are held, then sent to the new address.

Held requests wait as those of CLIENT PAUSE do, so nothing is refused that the new process will take. Once the log has
the mark of a clean stop, nothing may change any more: a turn answers clients and does nothing else. A request with keys
is redirected before anything else is looked at, also in EXEC, and one without keys gets the error of a region that does
not serve yet, which no command that writes, listens or publishes is exempt from, also in EXEC.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.shards import ShardMap
from crdtstream.connections.slicing import cut_short
from crdtstream.region.node import Node, Ready
from crdtstream.status.availability import PAUSED_ALL

# In a far future.
NEVER_MS: Final = 1 << 61


def hold_clients(node: Node) -> None:
    """Keep all requests back until `depart`, and cut those short that take several turns; `node.draining` knows what
    peers still lack.
    """
    node.draining.aim()
    node.context.pause.begin(NEVER_MS, PAUSED_ALL, node.context.now_ms)
    cut_short(node.context)


def depart(node: Node, shard_map: ShardMap, text: str) -> None:
    """After `node.stop`: clients are sent where this map says, and those who name no key get the text. Listeners are
    closed, so that they connect there. Call it again with a newer map.
    """
    context = node.context
    context.shards = shard_map
    context.standing.loading = text
    context.pause.end()
    node.serving.redirect_waiting(shard_map)
    for client in context.clients.values():
        if client.subscribed or client.monitoring:
            context.close(client)


def tick_away(node: Node, now_ms: int) -> None:
    """Advance time after `depart`, for clients that wait for it alone, as with CLIENT PAUSE."""
    node.set_clock(now_ms)
    node.context.pause.update(now_ms)
    node.serving.expire_waiting()


def ready_away(node: Node) -> Ready | None:
    """A turn after `depart`; returns what to do, or None."""
    node.serving.resume()
    assert not any(node.replica.opened()), "a shard that has moved changes nothing"
    assert not node.context.pubsub.published, "a shard that has moved publishes nothing"
    replies = node.outputs.drain()
    closing = node.serving.drain_closing()
    return Ready([], replies, closing, False, []) if replies or closing or node.serving.is_behind() else None
