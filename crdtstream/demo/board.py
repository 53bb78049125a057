"""The dashboard beside the regions of the demo, if its extra is installed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
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
    nodes = [word for region in cluster.regions.values() for word in ("--node", f"{HOST}:{region.port}")]
    process = LOCAL.launch(["dashboard", "--port", str(port), *nodes], cluster.directory / "dashboard.log")
    try:
        yield f"http://{HOST}:{port}/"
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
