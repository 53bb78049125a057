"""Ports that are off unless they are given. What serves one is imported only then: other regions start sooner."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from crdtstream.runtime.slices import SlicedLoop
from crdtstream.runtime.tls.certificates import Certificates
from crdtstream.settings.config import Config

if TYPE_CHECKING:
    from crdtstream.runtime.bulk.server import BulkServer
    from crdtstream.runtime.http.observing import Observed, Observing


def bulk_server_of(
    config: Config, loop: SlicedLoop, now_ms: Callable[[], int], certificates: Certificates | None
) -> BulkServer | None:
    if config.bulk_port is None:
        return None
    from crdtstream.runtime.bulk.server import BulkServer

    return BulkServer(config, loop, now_ms, certificates)


def observing_of(config: Config, loop: Observed) -> Observing | None:
    if config.http_port is None:
        return None
    from crdtstream.runtime.http.observing import Observing

    return Observing(loop)
