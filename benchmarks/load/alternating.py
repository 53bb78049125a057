"""Short loads on two servers by turns, from this process: how fast one is as a multiple of the other.

A machine that others use is fast for some seconds and slow for others. So one round lasts some hundredths of a second,
two that follow each other are compared, and the median of many such pairs counts. What happens in few rounds, as a
checkpoint, hardly shows in it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.load.driver import run, talkers_of
from benchmarks.load.loads import Exchanges, Load
from benchmarks.load.rounds import greet
from benchmarks.servers import Server

# The standard error of a median, from the distance of the quartiles, for values that are normally distributed.
MEDIAN_ERROR = 1.2533
QUARTILES_APART = 1.349

# From a server and the number of the pair, a load that was prepared for.
ShortLoad = Callable[[Server, int], Load]


@dataclass(frozen=True, slots=True)
class Multiple:
    """One server as a multiple of another: of its rate, with the standard error, and of its CPU time."""

    rate: float
    error: float
    cpu: float


def alternated(one: Server, other: Server, load_of: ShortLoad, pairs: int) -> Multiple:
    """Compare so many pairs, at least two; the servers change places in each."""
    rates, cpus = [], []
    for number in range(pairs):
        servers = (one, other) if number % 2 == 0 else (other, one)
        taken = {server: short_round(server, load_of(server, number)) for server in servers}
        rates.append(taken[other][0] / taken[one][0])
        cpus.append(taken[one][1] / taken[other][1])
    low, _, high = quantiles(rates, n=4)
    error = (high - low) / QUARTILES_APART * MEDIAN_ERROR / len(rates) ** 0.5
    return Multiple(median(rates), error, median(cpus))


def short_round(server: Server, load: Load) -> tuple[float, float]:
    """Seconds that a load takes, and the server's CPU time."""
    talkers = talkers_of(load)
    try:
        for talker in talkers:
            greet(talker)
        began_s, began_cpu_s = time.perf_counter(), server.cpu_s()
        run(talkers, load.by_lines if isinstance(load, Exchanges) else True, 0.0)
        return time.perf_counter() - began_s, server.cpu_s() - began_cpu_s
    finally:
        for talker in talkers:
            talker.socket.close()
