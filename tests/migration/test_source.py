"""The connection to a server that streams are read from or written to."""

from __future__ import annotations

import socket

import pytest

from crdtstream.migration.access import Access
from crdtstream.migration.source import MigrationError, connect


def test_a_server_that_does_not_answer_is_asked_once() -> None:
    """A suspended process accepts connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        access = Access(f"redis://127.0.0.1:{server.getsockname()[1]}")
        with pytest.raises(MigrationError, match="cannot use the region at"):
            connect(access, "the region", timeout_s=0.05)
        server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()
