"""Charts of more than an hour, and alerts on what only metrics tell, from a Prometheus server that scrapes regions."""

from __future__ import annotations

import asyncio
import json
import time
from http.client import HTTPException
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from crdtstream.dashboard.alerts import METRIC_RULES, Alert

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

# Another server may be there, whose answer has another shape.
FAILURES = (URLError, OSError, HTTPException, ValueError, LookupError, TypeError, AttributeError)
Lines = dict[str, list[tuple[float, float | None]]]


async def read_range(url: str, query: str, hours: int) -> tuple[Lines, str]:
    """The lines of a query over the last hours, and an error."""
    step = max(60, hours * 3600 // POINTS)
    end = time.time()
    told = {"query": query.replace("{step}", str(step)), "start": end - hours * 3600, "end": end, "step": step}
    try:
        return lines_of(await ask(url, f"query_range?{urlencode(told)}")), ""
    except FAILURES as error:
        return {}, reason_of(error)


async def read_alerts(url: str, cluster: str) -> tuple[list[Alert], str]:
    """The alerts of a cluster that fire by rules which the dashboard does not evaluate itself, and an error."""
    try:
        return alerts_of(await ask(url, "alerts"), cluster), ""
    except FAILURES as error:
        return [], reason_of(error)


def alerts_of(answer: Any, cluster: str) -> list[Alert]:
    """A server may watch other clusters, and other programs."""
    return [
        Alert(row["labels"]["alertname"], row["labels"]["severity"], row["annotations"]["summary"])
        for row in answer["data"]["alerts"]
        if row["state"] == "firing"
        and row["labels"]["alertname"] in METRIC_RULES
        and row["labels"].get("cluster", cluster) == cluster
    ]


async def ask(url: str, path: str) -> Any:
    return json.loads(await asyncio.to_thread(fetch, f"{url.rstrip('/')}/api/v1/{path}"))


def reason_of(error: Exception) -> str:
    if isinstance(error, LookupError | TypeError | AttributeError):
        return f"its answer is not that of Prometheus ({error})"
    return str(getattr(error, "reason", error))


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
