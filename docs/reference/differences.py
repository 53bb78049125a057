"""docs/differences.md, from the table of crdtstream/commands/differences.py."""

from __future__ import annotations

from crdtstream.commands.differences import DIFFERENCES

HEAD = """# What differs from Redis

Everything else replies as Redis does, in RESP2 and RESP3; tests compare the bytes with those of a real redis-server.
This page is generated from `crdtstream/commands/differences.py`.

| commands | in crdtstream | because |
|---|---|---|
"""


def differences_page() -> str:
    rows = [f"| {names_of(one.commands)} | {one.what} | {one.why} |\n" for one in DIFFERENCES]
    return HEAD + "".join(rows)


def names_of(commands: tuple[str, ...]) -> str:
    return ", ".join(f"`{name.upper()}`" for name in commands)
