"""What is known of each client: the table in docs/clients.md is made of these rows, and the tests hold them true.

`version` is the version with which the result was seen last, of `package` if it is one of Python's. `repeats` is how
many entries were delivered again after the move: what the consumer had handled and not acknowledged when the east
crashed. `unknown` names commands that the client sends and the server does not know, and does without.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.clients_real.moving import ALL


@dataclass(frozen=True)
class Row:
    name: str
    package: str
    version: str
    protocol: str
    run: str
    repeats: int
    unknown: frozenset[str] = frozenset()


BOTH = "RESP2, RESP3"
EVERY_PARSER = f"{BOTH}, each with and without hiredis-py"
# redis-py asks for it in RESP3, and goes on without it.
MAINTENANCE = frozenset({"CLIENT MAINT_NOTIFICATIONS"})

REDIS_PY = Row("redis-py", "redis", "8.1.0", EVERY_PARSER, "pipelines, batches of 10", 10, MAINTENANCE)
REDIS_PY_ASYNCIO = Row(
    "redis-py, asyncio", "redis", "8.1.0", EVERY_PARSER, "many connections, batches of 10", 10, MAINTENANCE
)
FASTSTREAM = Row("FastStream", "faststream", "0.7.8", BOTH, "an entry at a time, batches of 10", 1, MAINTENANCE)
TASKIQ = Row("taskiq-redis", "taskiq-redis", "1.2.4", BOTH, "a task at a time, batches of 10", 1, MAINTENANCE)
WALRUS = Row("walrus", "walrus", "0.9.8", "RESP2", "group objects, batches of 10", 10)
HIREDIS = Row("hiredis, in C", "", "0.14.1", "RESP2", "pipelines, batches of 10", 10)
ROWS = [REDIS_PY, REDIS_PY_ASYNCIO, FASTSTREAM, TASKIQ, WALRUS, HIREDIS]

HEAD = "| client | version | protocol | what was run | handled | again | unsupported commands |\n" + "|---" * 7 + "|\n"


def table() -> str:
    return HEAD + "".join(line(row) for row in ROWS)


def line(row: Row) -> str:
    vain = ", ".join(f"`{name}`" for name in sorted(row.unknown))
    cells = (row.name, row.version, row.protocol, row.run, f"{len(ALL)} of {len(ALL)}", str(row.repeats), vain)
    return f"| {' | '.join(cells)} |\n"
