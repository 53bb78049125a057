"""The page of metrics that a job or a query serves."""

from __future__ import annotations

import urllib.request


def metrics_at(port: int) -> dict[str, float]:
    """The value of each metric, by name and labels. Raises OSError if nothing is served there."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[:1] != "#")}
