"""The line that describes a client in CLIENT LIST and ACL LOG; figures that only a C server has (file descriptor,
buffers) are 0.

Reference: `catClientInfoString` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.client import Client


def line_of(now_ms: int, client: Client) -> bytes:
    age_s = max(0, now_ms - client.connected_ms) // 1000
    idle_s = max(0, now_ms - client.last_ms) // 1000
    channels, patterns, shards = client.topics
    return (
        b"id=%d addr=%b laddr=%b fd=0 name=%b age=%d idle=%d flags=%b db=%d sub=%d psub=%d ssub=%d multi=%d watch=%d"
        b" qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd=%b user=%b"
        b" redir=-1 resp=%d lib-name=%b lib-ver=%b io-thread=0 tot-net-in=0 tot-net-out=0 tot-cmds=0"
    ) % (
        client.id,
        client.address.encode(),
        client.local_address.encode(),
        client.name,
        age_s,
        idle_s,
        flags_of(client),
        client.database,
        len(channels),
        len(patterns),
        len(shards),
        -1 if client.transaction is None else len(client.transaction.requests),
        len(client.watched),
        client.last_command.encode() or b"NULL",
        client.user.name,
        client.protocol,
        client.lib_name,
        client.lib_version,
    )


def flags_of(client: Client) -> bytes:
    flags = [
        flag
        for flag, held in (
            (b"b", client.parked),
            (b"c", client.closing),
            (b"d", client.watch_failed),
            (b"e", client.no_evict),
            (b"O", client.monitoring),
            (b"P", client.subscribed),
            (b"T", client.no_touch),
            (b"x", client.transaction is not None),
        )
        if held
    ]
    return b"".join(flags) or b"N"
