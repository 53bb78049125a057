"""The space-time diagram of a run, as one self-contained HTML file.

`Drawing` records a run as rows; `model` turns them into one JSON object; `page` embeds it into the page of
`simulations/page/`, whose scripts draw it. Times are milliseconds since the beginning of the run. Text from clients
reaches the page only as JSON without any `<`, and the scripts insert it as text, never as markup.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from google.protobuf.message import DecodeError

from crdtstream.core import effects as fx
from crdtstream.core.effects import Batch, Effect
from crdtstream.core.values.entry_id import format_id
from crdtstream.protocols import codec
from crdtstream.replication.wire_pb2 import Message
from crdtstream.scenarios.reply import ReplyError, Value, show
from simulations.draw import named
from simulations.network import START_MS, Connection, Network, Watcher
from simulations.world import World

FOLDER = Path(__file__).parent / "page"
STYLES = ("page.css",)
SCRIPTS = ("run.js", "view.js", "draw.js", "page.js")
TEXT_MAX = 1200
PART_MAX = 240
NAMED_KEYS_MAX = 40

KINDS = {
    "XADD": "add",
    "XDEL": "remove",
    "XTRIM": "remove",
    "DEL": "remove",
    "XGROUP": "group",
    "XACK": "ack",
    "XCLAIM": "ack",
    "XAUTOCLAIM": "ack",
}
KEYLESS = frozenset({"PING", "INFO", "WAIT", "TIME", "CRDT.DIGEST", "CONFIG"})
# The parts of a message by purpose; data comes first, because a message is labelled by the first that it has.
CARRIES_DATA = frozenset({"batches", "chunk", "part"})
ONLY_PROGRESS = frozenset({"progress"})

Row = dict[str, object]


class Drawing(Watcher):
    """The rows of one run."""

    def __init__(self) -> None:
        self.commands: list[Row] = []
        self.messages: list[Row] = []
        self.faults: list[Row] = []
        self.links: list[Row] = []
        self._joined: dict[int, Row] = {}
        self._flying: dict[int, tuple[bytes, Row]] = {}
        self._present: dict[str, Row] = {}
        self._stopped_by: dict[int, str] = {}
        self._arrivals: list[tuple[int, Row]] = []

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        words = [text(word) for word in argv]
        key = key_of(words)
        self.commands.append(
            {
                "at": world.now_ms - START_MS,
                "region": number,
                "kind": "error" if isinstance(value, ReplyError) else KINDS.get(words[0].upper(), "read"),
                "keys": [] if key is None else [key],
                "argv": short(" ".join(words)),
                "reply": short(show(value)),
                "vector": vector_of(world, number),
                "state": "" if key is None else state_of(world, number, key.encode()),
            }
        )

    def sent(self, world: Network, connection: Connection, sender: int, message: Message, data: bytes) -> None:
        row: Row = {
            "at": world.now_ms - START_MS,
            "arrived": None,
            "region": sender,
            "to": connection.other(sender),
            "link": connection.number,
            "bytes": len(data),
            **described(data),
        }
        self.messages.append(row)
        self._flying[id(data)] = (data, row)

    def received(self, world: Network, connection: Connection, receiver: int, message: Message, data: bytes) -> None:
        known = self._flying.get(id(data))
        if known is None:
            return
        row = known[1]
        if row["arrived"] is not None:
            row = {**row, "again": True}
            self.messages.append(row)
        row["arrived"] = world.now_ms - START_MS
        self._arrivals.append((receiver, row))

    def stopped(self, world: Network, number: int, fault: str) -> None:
        self._stopped_by[number] = fault

    def opened(self, world: Network, connection: Connection) -> None:
        row: Row = {"at": world.now_ms - START_MS, "until": None, "ends": list(connection.ends)}
        self._joined[connection.number] = row
        self.links.append(row)

    def closed(self, world: Network, connection: Connection, end: int, reason: str) -> None:
        at_ms = world.now_ms - START_MS
        joined = self._joined.pop(connection.number, None)
        if joined is not None:
            joined["until"] = at_ms
        row: Row = {"at": at_ms, "until": at_ms, "kind": "closed", "region": end, "to": connection.other(end)}
        self.faults.append({**row, "text": f"connection {connection.number} ends here: {reason}"})

    def looked(self, world: Network) -> None:
        """Compare the present faults with the previous ones."""
        for receiver, row in self._arrivals:
            row["vector"] = vector_of(world, receiver)
        self._arrivals.clear()
        now = dict(self._wrong(world))
        at_ms = world.now_ms - START_MS
        for name in self._present.keys() - now.keys():
            self._present.pop(name)["until"] = at_ms
        for name, row in now.items():
            if name not in self._present:
                self._present[name] = {"at": at_ms, "until": None, **row}
                self.faults.append(self._present[name])

    def _wrong(self, world: Network) -> Iterator[tuple[str, Row]]:
        for number, machine in world.machines.items():
            if not machine.up:
                kind = self._stopped_by.get(number, "kill")
                yield f"down {number}", {"kind": kind, "region": number, "text": DOWN.get(kind, kind)}
            elif not machine.node.membership.serving():
                yield f"birth {number}", {"kind": "birth", "region": number, "text": "not serving: asks who it was"}
            if machine.paused:
                yield f"pause {number}", {"kind": "pause", "region": number, "text": "paused"}
            if machine.disk.capacity_bytes is not None:
                yield f"disk {number}", {"kind": "disk-full", "region": number, "text": "disk full"}
            if machine.skew_ms:
                what = f"clock is {machine.skew_ms:+,} ms off"
                yield f"clock {number} {machine.skew_ms}", {"kind": "clock", "region": number, "text": what}
        assert isinstance(world, World)
        for kind, pairs in (("cut", world.cut), ("clog", world.clogged), ("slow", world.slow)):
            for low, high in sorted(pairs):
                arrow = "to" if kind == "clog" else "and"
                what = f"link {kind}: {low} {arrow} {high}"
                yield f"{kind} {low} {high}", {"kind": kind, "region": low, "to": high, "text": what}


DOWN = {
    "kill": "process killed",
    "power": "power lost: unsynced writes may be gone",
    "torn": "power lost in the middle of a write",
    "disk-error": "a write or a sync failed",
    "rot": "killed, and a bit of its disk flipped",
    "disk-loss": "disk lost: starts empty",
    "join": "not there yet",
}


def text(data: bytes) -> str:
    return data.decode(errors="backslashreplace")


def short(line: str, most: int = TEXT_MAX) -> str:
    return line if len(line) <= most else f"{line[:most]}… ({len(line) - most:,} characters more)"


def key_of(words: list[str]) -> str | None:
    """Return the key of a command."""
    name = words[0].upper()
    if name in KEYLESS or len(words) < 2:
        return None
    if name in ("XREAD", "XREADGROUP"):
        upper = [word.upper() for word in words]
        return words[upper.index("STREAMS") + 1] if "STREAMS" in upper[:-1] else None
    if name in ("XGROUP", "XINFO", "OBJECT"):
        return words[2] if len(words) > 2 else None
    return words[1]


def vector_of(world: Network, number: int) -> str:
    rows = world.machines[number].node.replica.applied.vector.as_dict()
    return " ".join(f"{origin}:{counter}" for origin, counter in sorted(rows.items()))


def state_of(world: Network, number: int, key: bytes) -> str:
    """Describe in one line what the region holds of the key."""
    stream = world.machines[number].node.replica.keyspace.find((0, key))
    if stream is None:
        return "no such key"
    groups = [f"{text(name)} ({group.pending.count} pending)" for name, group in sorted(stream.groups.items())]
    return f"{stream.length} entries, last ID {format_id(stream.top).decode()}; groups: {', '.join(groups) or 'none'}"


def described(data: bytes) -> Row:
    """Describe a message: its kind, the keys that it touches, a line for each part."""
    try:
        message = Message.FromString(data)
    except DecodeError:
        return {"kind": "control", "keys": [], "parts": ["not a message"]}
    keys: dict[str, None] = {}
    parts: list[str] = []
    names = [field.name for field, _ in message.ListFields()]
    for field, value in message.ListFields():
        if field.name == "batches":
            for payload in value.payloads:
                batch = codec.decode_batch(payload)
                parts.append(batch_text(batch))
                keys |= dict.fromkeys(text(effect.key[1]) for effect in batch.effects if effect.key[1])
        else:
            parts.append(short(f"{field.name}: {' '.join(str(value).split())}", PART_MAX))
    kind = "data" if CARRIES_DATA & set(names) else "progress" if set(names) <= ONLY_PROGRESS else "control"
    return {"kind": kind, "keys": list(keys), "parts": parts}


def batch_text(batch: Batch) -> str:
    context = " ".join(f"{origin}:{counter}" for origin, counter in sorted(batch.context.as_dict().items()))
    what = "; ".join(effect_text(effect) for effect in batch.effects)
    last = "" if batch.first == batch.last else f"-{batch.last}"
    return short(f"{batch.origin}:{batch.first}{last} {what} (saw {context or 'nothing'})")


def effect_text(effect: Effect) -> str:
    words = [type(effect).__name__, text(effect.key[1])]
    group = getattr(effect, "group", None)
    if isinstance(group, bytes):
        words.append(text(group))
    if isinstance(effect, fx.EntriesAdded):
        shown = range(effect.low, min(effect.high, effect.low + 3))
        words += [format_id(effect.block.id_at(index)).decode() for index in shown]
        words += ["..."] if effect.high - effect.low > 3 else []
    return " ".join(filter(None, words))


# The page


def model(world: World, drawing: Drawing, violation: str) -> Row:
    """Return everything that the page shows."""
    end_ms = world.now_ms - START_MS
    for row in [*drawing.faults, *drawing.links]:
        row["until"] = end_ms if row["until"] is None else row["until"]
    settings = world.settings
    return {
        "seed": world.seed,
        "world": named(world.seed),
        "settings": f"{settings.regions} regions, {settings.topology}, {settings.id_mode}",
        "faultKinds": list(settings.faults),
        "statistics": world.statistics,
        "end": end_ms,
        "healed": min(settings.duration_ms, end_ms),
        "pairs": [list(pair) for pair in world.pairs],
        "regions": [
            {"number": number, "name": machine.config.name, "fsync": machine.config.fsync}
            for number, machine in world.machines.items()
        ],
        "violation": violated(violation, end_ms),
        "commands": drawing.commands,
        "messages": drawing.messages,
        "faults": drawing.faults,
        "links": drawing.links,
    }


def violated(violation: str, at_ms: int) -> Row | None:
    """Return where and when the first invariant was violated; region and keys only if the text names them."""
    if not violation:
        return None
    checker, _, what = violation.partition(": ")
    region = re.search(r"\bregion (\d+)", what)
    keys = list(dict.fromkeys(re.findall(r"\(0, b'([^']*)'\)", what)))
    return {
        "at": at_ms,
        "checker": checker,
        "text": short(what),
        "region": int(region[1]) if region else None,
        "keys": keys[:NAMED_KEYS_MAX],
    }


def embedded(value: object) -> str:
    """Return JSON that is safe inside a script element: without `<`, `>` and `&`, and ASCII only."""
    line = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return line.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def page(shown: Row) -> str:
    """Return the HTML file."""
    template = (FOLDER / "page.html").read_text(encoding="utf-8")
    parts = {
        "{{style}}": "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in STYLES),
        "{{script}}": "\n".join((FOLDER / name).read_text(encoding="utf-8") for name in SCRIPTS),
        "{{world}}": str(shown["world"]),
        "{{run}}": embedded(shown),
    }
    pieces = re.split(r"(\{\{\w+\}\})", template)
    return "".join(parts.get(piece, piece) for piece in pieces)
