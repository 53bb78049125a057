"""Short loads on two servers by turns, from this process: how fast one is as a multiple of the other.

A machine that others use is fast for some seconds and slow for others. So one round lasts some hundredths of a second,
and rounds that follow each other are compared: one server, the other, the other, and the one again, because it may
matter which comes first. The median of many such comparisons counts. What happens in few rounds, or between them, as a
checkpoint, hardly shows in it; it shows in the CPU time of all rounds until both servers are at rest.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median, quantiles

from benchmarks.load.driver import run, talkers_of
from benchmarks.load.loads import Exchanges, Load
from benchmarks.load.rounds import greet
from benchmarks.report.figures import DRIVER_BUSY
from benchmarks.servers import Server

# The standard error of a median, from the distance of the quartiles, for values that are normally distributed.
MEDIAN_ERROR = 1.2533
QUARTILES_APART = 1.349

# From a server and the number of its round, a load that was prepared for.
ShortLoad = Callable[[Server, int], Load]


@dataclass(frozen=True, slots=True)
class Multiple:
    """One server as a multiple of another: of its rate, with the standard error, and of its CPU time until at rest.
    `driver` is the part of the rounds in which this process computed: where that is nearly all, the rate is its own.
    """

    rate: float
    error: float
    cpu: float
    driver: float

    @property
    def driver_bound(self) -> bool:
        return self.driver > DRIVER_BUSY


def alternated(
    one: Server, other: Server, load_of: ShortLoad, comparisons: int, await_rest: Callable[[Server], None]
) -> Multiple:
    """Make so many comparisons, at least two, of two rounds of each server."""
    began_s = {server: server.cpu_s() for server in (one, other)}
    rates, total_s, driver_s = [], 0.0, 0.0
    for number in range(comparisons):
        taken_s = dict.fromkeys((one, other), 0.0)
        for at, server in enumerate((one, other, other, one)):
            seconds, driver_cpu_s = short_round(load_of(server, 2 * number + at // 2))
            taken_s[server] += seconds
            total_s, driver_s = total_s + seconds, driver_s + driver_cpu_s
        rates.append(taken_s[other] / taken_s[one])
    cpu_s = {}
    for server in (one, other):
        await_rest(server)
        cpu_s[server] = server.cpu_s() - began_s[server]
    low, _, high = quantiles(rates, n=4)
    error = (high - low) / QUARTILES_APART * MEDIAN_ERROR / len(rates) ** 0.5
    return Multiple(median(rates), error, cpu_s[one] / cpu_s[other], driver_s / total_s)


def short_round(load: Load) -> tuple[float, float]:
    """Seconds that a load takes, and CPU time that it takes here."""
    talkers = talkers_of(load)
    try:
        for talker in talkers:
            greet(talker)
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        run(talkers, load.by_lines if isinstance(load, Exchanges) else True, 0.0)
        return time.perf_counter() - began_s, time.process_time() - began_cpu_s
    finally:
        for talker in talkers:
            talker.socket.close()
