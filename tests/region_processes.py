"""Regions as processes that are each other's peers."""

from __future__ import annotations

import redis

from crdtstream.processes.region import RegionProcess

KILOBYTE = b"v" * 1024


def linked(*regions: RegionProcess, **settings: object) -> None:
    """Start regions with each other as peers, all of them new, and wait for their links."""
    for region in regions:
        region.start(*[peer for peer in regions if peer is not region], incarnation=0, **settings)
    for region in regions:
        region.await_serving()
    for region in regions:
        region.await_links(*[peer.name for peer in regions if peer is not region])


def ids(region: RegionProcess, key: str = "x") -> list[bytes]:
    return [entry[0] for entry in region.ask("XRANGE", key, "-", "+")]


def refused(region: RegionProcess, *argv: str) -> str:
    try:
        region.ask(*(argv or ("XADD", "probe", "*", "f", "v")))
    except redis.ResponseError as error:
        return f"{type(error).__name__.upper()} {error}" if not str(error).startswith("MISCONF") else str(error)
    return ""


# A process whose first random number is always the same: two of them are twins.
FIRST_DRAW = """
import runpy, secrets
drawn = secrets.randbits
def draw(bits):
    secrets.randbits = drawn
    return 7
secrets.randbits = draw
runpy.run_module("crdtstream", run_name="__main__", alter_sys=True)
"""
