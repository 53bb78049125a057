"""Counters that INFO shows: what the region has done since its start or since CONFIG RESETSTAT; and the stopwatch that
times commands for them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

RATE_SAMPLES = 16
# A command that took n nanoseconds is counted in bucket n.bit_length(), so bucket k holds those below 2^k ns; no
# command takes 2^63 ns, which are centuries.
BUCKETS: Final = 64


class Tally:
    """The figures of one command: how often it ran, for how long in total, how often it failed or was rejected; and how
    many calls took how long, by powers of 2.
    """

    __slots__ = ("buckets", "calls", "failed", "rejected", "took_ns")

    def __init__(self) -> None:
        self.calls = 0
        self.failed = 0
        self.rejected = 0
        self.took_ns = 0
        self.buckets = [0] * BUCKETS


class Statistics:
    __slots__ = (
        "connections",
        "denied_channels",
        "denied_commands",
        "denied_keys",
        "denied_passwords",
        "errors",
        "hits",
        "http_clients",
        "letters_refused",
        "letters_returned",
        "letters_written",
        "misses",
        "output_disconnections",
        "refused_handshakes",
        "rejected_connections",
        "samples",
        "tallies",
    )

    def __init__(self) -> None:
        self.connections = 0
        self.rejected_connections = 0
        self.refused_handshakes = 0
        self.denied_passwords = 0
        self.denied_commands = 0
        self.denied_keys = 0
        self.denied_channels = 0
        self.http_clients = 0
        self.output_disconnections = 0
        self.errors: dict[str, int] = {}
        self.tallies: dict[str, Tally] = {}
        self.samples: deque[tuple[int, int]] = deque(maxlen=RATE_SAMPLES)
        self.hits = 0
        self.misses = 0
        # Dead letters that this region wrote, brought back, or did not write because they were letters too often.
        self.letters_written = 0
        self.letters_returned = 0
        self.letters_refused = 0

    def tally(self, name: str) -> Tally:
        found = self.tallies.get(name)
        if found is None:
            found = self.tallies[name] = Tally()
        return found

    def commands(self) -> int:
        """The number of commands that ran."""
        return sum([tally.calls for tally in self.tallies.values()])

    def sample(self, now_ms: int) -> None:
        """Record one sample at each tick, for the rate; a late tick gives one sample over a longer time. If the clock
        was set back, earlier samples are discarded.
        """
        if self.samples and now_ms < self.samples[-1][0]:
            self.samples.clear()
        self.samples.append((now_ms, self.commands()))

    def commands_per_s(self) -> int:
        if len(self.samples) < 2:
            return 0
        (began_ms, before), (end_ms, after) = self.samples[0], self.samples[-1]
        return (after - before) * 1000 // max(1, end_ms - began_ms)


class Stopwatch:
    """How long commands run. It is the only clock that commands use, and only for statistics.

    The runtime supplies a function that counts nanoseconds from an arbitrary start; without one, no time passes.
    Nothing replicated depends on it, and no replies except those of INFO and SLOWLOG.

    A reading costs as much as some commands do, so there is only one for each command: a command begins where the
    previous one ended (`mark_ns`). The first command after a pause takes an extra reading.
    """

    __slots__ = ("_count", "mark_ns")

    def __init__(self, count: Callable[[], int] | None = None) -> None:
        self._count = count
        self.mark_ns = 0

    def read(self) -> int:
        """Read the time in nanoseconds and make it the mark."""
        if self._count is not None:
            self.mark_ns = self._count()
        return self.mark_ns
