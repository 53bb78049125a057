"""The connection between two regions does not end before the link on it would."""

from __future__ import annotations

from crdtstream.runtime.links.streams import grpc_options
from crdtstream.settings.config import Limits


def test_grpc_and_tcp_give_up_a_connection_long_after_the_session() -> None:
    """The timeout of pings is that of TCP too: a saturated link was lost because nothing was confirmed for 5 s."""
    options = dict(grpc_options(1 << 20))
    assert options["grpc.keepalive_timeout_ms"] >= 10 * Limits().peer_timeout_ms


def test_a_stream_does_not_stand_still_while_what_allows_more_waits_behind_bulk() -> None:
    """Some seconds of any link that is slower than a megabyte in a second."""
    assert dict(grpc_options(1 << 20))["grpc.http2.lookahead_bytes"] >= 4 << 20
