"""What runs beside the regions of the demo: the dashboard, if its extra is installed, and with `--load` a workload."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

from crdtstream.demo.cluster import Cluster
from crdtstream.processes.launching import LOCAL
from crdtstream.processes.ports import HOST, free_port

STOP_S = 20.0


@contextmanager
def dashboard_beside(cluster: Cluster) -> Iterator[str]:
    """Run it; yields its address, or an empty text without the extra."""
    if find_spec("nicegui") is None:
        yield ""
        return
    port = free_port()
    with beside(cluster, "dashboard", ["dashboard", "--port", str(port)]):
        yield f"http://{HOST}:{port}/"


@contextmanager
def beside(cluster: Cluster, name: str, words: Sequence[str]) -> Iterator[None]:
    """Run this command of the command line on all regions; its log is in the directory of the demo."""
    nodes = [word for region in cluster.regions.values() for word in ("--node", f"{HOST}:{region.port}")]
    process = LOCAL.launch([*words, *nodes], cluster.directory / f"{name}.log")
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
