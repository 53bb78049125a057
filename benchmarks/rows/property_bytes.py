"""What properties cost on the wire: bytes that pass a relay from the source for each operation, beside those of streams
and groups without any. Every second entry stays pending, so acknowledgements have gaps.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from benchmarks.bench import Bench
from benchmarks.load.wire import Connection, command
from benchmarks.report.figures import Result, Side
from benchmarks.rows.replication import await_sink, linked
from benchmarks.servers import Region
from crdtstream.processes.relay import Relay

COUNT_MIN: Final = 2_000
PAGE: Final = 100
# The source delivers nothing for a group with DELIVER until it has heard the other region.
HEARD_WITHIN_MS: Final = 60_000

# For a key, so many requests of which each is one operation; what they need is there afterwards.
RequestMaker = Callable[[Connection, str, int], list[bytes]]


def plain_adds(_connection: Connection, key: str, count: int) -> list[bytes]:
    return [command("XADD", key, "*", "f", value) for value in values(count)]


def named_adds(_connection: Connection, key: str, count: int) -> list[bytes]:
    named = enumerate(values(count))
    return [command("XADD", key, "IDMP", "shop", f"order-{at}", "*", "f", value) for at, value in named]


def values(count: int) -> list[str]:
    """16 random hex digits each, because equal ones would be compressed away."""
    random = Random(1)
    return [f"{random.getrandbits(64):016x}" for _ in range(count)]


def acknowledgements(properties: tuple[str, ...]) -> RequestMaker:
    """XACK of every second entry, of a group with these properties that has all of them pending."""

    def made(connection: Connection, key: str, count: int) -> list[bytes]:
        connection.pipeline(plain_adds(connection, key, 2 * count))
        connection.ask("XGROUP", "CREATE", key, "g", 0, *(("CRDT", *properties) if properties else ()))
        ids: list[bytes] = []
        while len(ids) < 2 * count:
            options = ("COUNT", PAGE, "BLOCK", HEARD_WITHIN_MS, "STREAMS", key, ">")
            reply = connection.ask("XREADGROUP", "GROUP", "g", "c", *options)
            ids += [entry_id for entry_id, _ in reply[0][1]]
        return [command("XACK", key, "g", entry_id) for entry_id in ids[1::2]]

    return made


KINDS: Final[tuple[tuple[str, str, RequestMaker], ...]] = (
    ("xadd", "XADD", plain_adds),
    ("xadd-idmp", "XADD IDMP", named_adds),
    ("xack", "XACK of every second entry", acknowledgements(())),
    ("xack-exact", "XACK of every second entry, ACKNOWLEDGE EXACT", acknowledgements(("ACKNOWLEDGE", "EXACT"))),
    ("xack-owner", "XACK of every second entry, DELIVER OWNER", acknowledgements(("DELIVER", "OWNER", "1"))),
)


def property_bytes(bench: Bench, name: str) -> list[Result]:
    source, sink, relay = linked(bench)
    count = max(COUNT_MIN, bench.scale.replicated_entries // 20)
    return [
        Result(f"{name}-{kind}", f"{title}, on the wire", "B", Side(sent(source, sink, relay, kind, make, count)))
        for kind, title, make in KINDS
    ]


def sent(source: Region, sink: Region, relay: Relay, key: str, make: RequestMaker, count: int) -> float:
    """Bytes from the source for each operation."""
    with Connection(source.port) as connection:
        requests = make(connection, key, count)
        await_sink(source, sink)
        before = relay.from_target
        connection.pipeline(requests)
        await_sink(source, sink)
    return (relay.from_target - before) / count
