"""Conversations of several clients: what each of them receives in all, from a region and from a real redis-server.

A script is lines of `CLIENT: REQUEST`, where a client is a digit.
"""

from __future__ import annotations

from tests.commands.harness import Connection, Region

MARKER = b"end-of-the-conversation"
PONGS = tuple(head + b"$%d\r\n%b\r\n" % (len(MARKER), MARKER) for head in (b"*2\r\n$4\r\npong\r\n", b""))


def lines_of(script: str) -> list[tuple[str, str]]:
    return [(line[0], line[2:]) for line in map(str.strip, script.splitlines()) if line]


def names_of(script: str) -> list[str]:
    return sorted({name for name, _ in lines_of(script)})


def in_region(script: str, region: Region | None = None) -> dict[str, bytes]:
    """What each client received: replies, and the messages that arrived behind them."""
    region = region or Region()
    clients = {name: region.connect() for name in names_of(script)}
    received = dict.fromkeys(clients, b"")
    for name, text in lines_of(script):
        received[name] += region.line(text, client=clients[name]) or b""
        messages = region.context.pubsub.drain()
        for other, client in clients.items():
            received[other] += b"".join([message for one, message in messages if one is client])
        region.check()
    return received


def in_redis(port: int, script: str) -> dict[str, bytes]:
    connections = {name: Connection(port) for name in names_of(script)}
    received = dict.fromkeys(connections, b"")
    in_transaction: set[str] = set()
    for name, text in lines_of(script):
        if text == "MULTI":
            in_transaction.add(name)
        elif text == "EXEC":
            in_transaction.discard(name)
        if name in in_transaction:
            received[name] += connections[name].line(text)
        else:
            connections[name].send(*text.split())
            received[name] += until_marker(connections[name])
    for name, connection in connections.items():
        received[name] += until_marker(connection)
        connection.close()
    return received


def until_marker(connection: Connection) -> bytes:
    """Everything that the server has sent so far: up to the reply to a PING."""
    connection.send("PING", MARKER)
    found = b""
    while not found.endswith(MARKER + b"\r\n"):
        found += connection.stream.read(1)
    return next(found.removesuffix(pong) for pong in PONGS if found.endswith(pong))
