"""Broken lines of what a region does without room: see `broken_lines.py`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from simulations.broken_lines import Mutation

# States are transferred often.
SHORT_LOGS: Mapping[str, Any] = MappingProxyType({"log_retention_bytes": 1, "checkpoint_interval_ms": 100})

ROOMS = (
    Mutation(
        "a region without room applies what arrives",
        "replication/exchange/arrivals.py",
        "        if self.holding.lack.lacking:\n            self._hold(header, payload, link)\n",
        "        if self.holding.lack.lacking:\n            self._apply(header, payload, [link])\n",
        "room",
        alone=True,
    ),
    Mutation(
        "what waits is applied at the next tick, with or without room",
        "replication/exchange/arrivals.py",
        "        gate = self.holding if self.holding.lacking else None\n",
        "        gate = None\n",
        "room",
    ),
    Mutation(
        "a region without room refuses a peer that sends more than it keeps",
        "replication/exchange/arrivals.py",
        "        elif session is not None:\n            self._drop(session)\n",
        '        elif session is not None:\n            session.refuse("there is no room")\n',
        "room",
    ),
    Mutation(
        "a state is joined without room",
        "replication/exchange/exchange.py",
        "        if not self.arrivals.holding.lacking and not self.fetching.waiting:\n",
        "        if True:\n",
        "room",
        focus=SHORT_LOGS,
    ),
    Mutation(
        "what was dropped is not asked for again",
        "replication/links/intake.py",
        "        self.asks_again = self.dropped\n",
        "        self.asks_again = False\n",
        "convergence",
    ),
    Mutation(
        "a region without room sends nothing",
        "replication/links/session.py",
        "        searching = not view.frozen and self._feed.fill(",
        "        searching = not view.frozen and not view.lack[0] and self._feed.fill(",
        "convergence",
    ),
    Mutation(
        "a peer that has room again is sent as little as before",
        "replication/links/feed.py",
        "        self._window_bytes = min(byte_count or self._window_bytes_max, self._window_bytes_max)\n",
        "        self._window_bytes = min(byte_count, self._window_bytes_max)\n",
        "convergence",
    ),
)
