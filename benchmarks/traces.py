"""`python -m benchmarks.traces`: the path of one XADD through the code, in the region that executes it and in a peer.

Two pure nodes in one process, interpreted, on simulated disks. `sys.setprofile` counts Python calls, the files that
they are in, and the calls whose caller is in another file. The near side is from the node's `execute` to the `Ready`
that holds the record, the far side from the node's `receive` to the `Ready` of the same record there. Both are counted
at the fifth XADD, when links are open and the stream exists.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import crdtstream
from crdtstream.core.values.entry_id import SEMI_STRICT
from crdtstream.region.node import Node
from simulations.cluster import CLIENT, Cluster
from simulations.machine import Machine

PACKAGE = str(Path(crdtstream.__file__).parent)
WARM_UP = 4
ADD = [b"XADD", b"orders", b"*", b"item", b"lamp"]
BYTES_MAX = 1 << 20


class Trace:
    """The calls of the package's functions during some work, in order: file and name of each."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.changes = 0

    def trace_turn(self, region: Machine, work: Callable[[Node], object]) -> None:
        """Trace the work up to the `Ready` that holds its record; appending to the log is not traced."""
        sys.setprofile(self._count_call)
        try:
            work(region.node)
            ready = region.node.ready()
        finally:
            sys.setprofile(None)
        assert ready is not None and ready.records, "the work produced no record"
        region.log.append(ready.records)

    def _count_call(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(PACKAGE):
            return
        self.calls.append((code.co_filename[len(PACKAGE) + 1 :], code.co_qualname))
        caller = frame.f_back
        self.changes += caller is None or caller.f_code.co_filename != code.co_filename

    @property
    def files(self) -> int:
        return len({file for file, _ in self.calls})


def traces() -> tuple[Trace, Trace]:
    """Trace the near side and the far side."""
    cluster = Cluster(2, SEMI_STRICT)
    for _ in range(WARM_UP):
        cluster.execute(1, ADD)
        cluster.sync()
    near, far = Trace(), Trace()
    near.trace_turn(cluster.machines[1], lambda node: node.execute(CLIENT, ADD, cluster.now_ms))
    link = cluster.link(1, 2).number
    message = cluster.node(1).outgoing(link, BYTES_MAX, cluster.now_ms)
    assert message is not None and message.HasField("batches"), "the message has no batch"
    far.trace_turn(cluster.machines[2], lambda node: node.receive(link, message, cluster.now_ms))
    return near, far


def main(calls: Annotated[bool, typer.Option(help="List every call of the far side.")] = False) -> None:
    """Count the calls, files and changes of file of one XADD on both sides."""
    near, far = traces()
    if calls:
        for file, name in far.calls:
            print(f"{file}: {name}")
    table = Table("side", "calls", "files", "changes of file")
    for name, trace in (("near", near), ("far", far)):
        table.add_row(name, str(len(trace.calls)), str(trace.files), str(trace.changes))
    Console().print(table)


if __name__ == "__main__":
    typer.run(main)
