"""The arguments that COMMAND DOCS tells, beside those of a real redis-server.

The server at hand is a 7.0: it has no `display_text`, and 8.2, which we follow, gave some arguments other names, and a
few other shapes. Those are listed here; everything else is equal.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from crdtstream.scenarios.reply import Value, read_reply
from tests.commands.harness import REDIS, Connection, Region, every_command, redis_server

pytestmark = pytest.mark.skipif(REDIS is None, reason="redis-server is not installed")

Shape = dict[str, object]

# Command to what 7.0 calls arguments that 8.2, and we, call otherwise;
# with the type where the name alone is not enough.
RENAMED = {
    "client|reply": {"on_off_skip": "action"},
    "client|unblock": {"timeout_error": "unblock-type"},
    "config|set": {"parameter_value": "data"},
    "cluster|keyslot": {"key": "key-name"},
    "cluster|reset": {"hard_soft": "reset-type"},
    "flushall": {"async oneof": "flush-type"},
    "flushdb": {"async oneof": "flush-type"},
    "hello": {"username_password": "auth"},
    "shutdown": {"nosave_save": "save-selector"},
    "xadd": {"id_or_auto": "id-selector", "auto_id": "auto-id", "field_value": "data"},
    "xclaim": {"id string LASTID": "lastid"},
    "xgroup|create": {
        "groupname": "group",
        "id oneof": "id-selector",
        "new_id": "new-id",
        "entries_read": "entriesread",
    },
    "xgroup|createconsumer": {"groupname": "group", "consumername": "consumer"},
    "xgroup|delconsumer": {"groupname": "group", "consumername": "consumer"},
    "xgroup|destroy": {"groupname": "group"},
    "xgroup|setid": {
        "groupname": "group",
        "id oneof": "id-selector",
        "new_id": "new-id",
        "entries_read": "entriesread",
    },
    "xinfo|consumers": {"groupname": "group"},
    "xreadgroup": {"group_consumer": "group-block"},
    "xsetid": {"entries_added": "entries-added", "max_deleted_entry_id": "max-deleted-id"},
}
# Commands whose arguments have another shape since 7.2, or in 8.2.
RESHAPED = {"client|kill", "client|list", "config|get", "xinfo|stream", "psubscribe"}
# What 7.0 does not know, or knows without arguments.
UNKNOWN = {
    "client|no-touch",
    "client|setinfo",
    "command|getkeys",
    "command|getkeysandflags",
    "debug",
    "waitaof",
    "xackdel",
    "xcfgset",
    "xdelex",
    "xidmprecord",
    "xnack",
}


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    with redis_server(tmp_path_factory.mktemp("redis")) as number:
        yield number


def pairs(value: Value) -> dict[str, Value]:
    assert isinstance(value, list)
    return {str(name): item for name, item in zip(value[::2], value[1::2], strict=True)}


def shapes(value: Value) -> list[Shape]:
    """Arguments as dictionaries, down to the last one, without those that came with 8.2 or later, which KEEPREF,
    DELREF and ACKED (`condition`) do not say.
    """
    assert isinstance(value, list)
    found: list[Shape] = []
    for item in value:
        shape: Shape = dict(pairs(item))
        if str(shape.get("since", "")).startswith("8.") or shape.get("name") == "condition":
            continue
        shape.pop("display_text", None)
        if "arguments" in shape:
            shape["arguments"] = shapes(pairs(item)["arguments"])
        found.append(shape)
    return found


def documented(reply: bytes | None, name: str) -> list[Shape]:
    """The arguments of a command; those of a subcommand too are told under its own name."""
    fields = pairs(pairs(read_reply(reply or b""))[name])
    return shapes(fields.get("arguments", []))


def renamed(name: str, found: list[Shape]) -> list[Shape]:
    """With the names of 8.2."""
    names = RENAMED.get(name, {})
    for shape in found:
        old, kind, token = (str(shape.get(part, "")) for part in ("name", "type", "token"))
        known = [names[key] for key in (f"{old} {kind} {token}", f"{old} {kind}", old) if key in names]
        shape["name"] = known[0] if known else old
        if "arguments" in shape:
            inner = shape["arguments"]
            assert isinstance(inner, list)
            shape["arguments"] = renamed(name, inner)
    return found


COMPARED = sorted(
    command.name
    for command in every_command()
    if command.name not in RESHAPED | UNKNOWN and not command.name.startswith("crdt.")
)


@pytest.mark.parametrize("name", COMPARED)
def test_arguments(port: int, name: str) -> None:
    connection, region = Connection(port), Region()
    try:
        ours, theirs = (documented(server.line(f"COMMAND DOCS {name}"), name) for server in (region, connection))
        assert ours == renamed(name, theirs)
    finally:
        connection.close()


def test_what_is_not_compared_is_there() -> None:
    assert {command.name for command in every_command() if command.arguments} >= RESHAPED | UNKNOWN
