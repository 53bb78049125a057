"""Charts of more than an hour, from a Prometheus server that scrapes the regions."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 32 << 20
POINTS = 300
SPANS = {6: "6 hours", 24: "A day", 168: "A week", 720: "30 days"}
# The step of rates is that of the chart, so no peak between two points is lost.
QUERIES = (
    ("Behind, seconds", "max by (peer) (crdtstream_peer_lag_seconds)"),
    ("Behind, effects", "max by (peer) (crdtstream_peer_lag_effects)"),
    ("Commands each second", "sum by (region) (rate(crdtstream_command_duration_seconds_count[{step}s]))"),
    ("Effects applied each second", "sum by (region) (rate(crdtstream_effects_total[{step}s]))"),
    ("Memory, MiB", "max by (region) (crdtstream_memory_resident_bytes) / 1048576"),
    ("Free disk, GiB", "min by (region) (crdtstream_data_free_bytes) / 1073741824"),
    ("Log, MiB", "max by (region) (crdtstream_log_size_bytes) / 1048576"),
    ("Clients", "max by (region) (crdtstream_clients_connected)"),
)

Lines = dict[str, list[tuple[float, float | None]]]


async def read_range(url: str, query: str, hours: int) -> tuple[Lines, str]:
    """The lines of a query over the last hours, and an error."""
    step = max(60, hours * 3600 // POINTS)
    end = time.time()
    told = {"query": query.replace("{step}", str(step)), "start": end - hours * 3600, "end": end, "step": step}
    address = f"{url.rstrip('/')}/api/v1/query_range?{urlencode(told)}"
    try:
        return lines_of(json.loads(await asyncio.to_thread(fetch, address))), ""
    except (URLError, OSError, ValueError, KeyError) as error:
        return {}, str(getattr(error, "reason", error))


def fetch(address: str) -> bytes:
    with urlopen(address, timeout=TIMEOUT_S) as answer:
        found: bytes = answer.read(ANSWER_BYTES_MAX)
    return found


def lines_of(answer: Any) -> Lines:
    """By the value of the only label; what is not a number is a gap."""
    found: Lines = {}
    for row in answer["data"]["result"]:
        name = next(iter(row["metric"].values()), "all")
        found[name] = [(float(time_s), number(value)) for time_s, value in row["values"]]
    return found


def number(text: str) -> float | None:
    return None if text in ("NaN", "+Inf", "-Inf") else float(text)
