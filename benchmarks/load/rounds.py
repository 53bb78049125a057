"""A load in rounds, for counting the instructions of a server.

What a server does for a request depends on what it finds together with it, and that depends on how fast the server and
the load generator are: under valgrind the same load has smaller batches in one run and larger ones in another. So each
round stops the server, sends one step on every connection, lets the server continue, and receives all replies: each
pass of its event loop finds the same.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace
from signal import SIGCONT, SIGSTOP
from socket import MSG_WAITALL

from benchmarks.instructions import Counter
from benchmarks.load.driver import SILENCE_S, Talker, talkers_of
from benchmarks.load.loads import Exchanges, Load, drive
from benchmarks.load.wire import command
from benchmarks.report.figures import Sample
from benchmarks.servers import Server

PING, PONG = command("PING"), b"+PONG\r\n"


def measure(server: Server, load: Load) -> Sample:
    """Run a load that a row is about, which is counted if the server has a counter."""
    if server.counter is None:
        return drive(server, load)
    return counted(server, load, server.counter)


def counted(server: Server, load: Load, counter: Counter) -> Sample:
    talkers = talkers_of(load)
    by_lines = load.by_lines if isinstance(load, Exchanges) else True
    began_s = time.monotonic()
    try:
        for talker in talkers:
            greet(talker)
        with counter.counted(server.pid) as count:
            play(server, talkers, by_lines)
    finally:
        for talker in talkers:
            talker.socket.close()
    operations = load.operations if isinstance(load, Exchanges) else load.total
    sample = Sample(operations, time.monotonic() - began_s, cpu_s=0.0, driver_cpu_s=0.0)
    return replace(sample, instructions=count.instructions)


def greet(talker: Talker) -> None:
    """Have the server accept the connection now, so that this does not count in some runs and not in others."""
    talker.socket.settimeout(SILENCE_S)
    talker.socket.sendall(PING)
    answer = talker.socket.recv(len(PONG), MSG_WAITALL)
    if answer != PONG:
        raise ConnectionError(f"an unexpected reply: {answer!r}")


def play(server: Server, talkers: list[Talker], by_lines: bool) -> None:
    while left := [talker for talker in talkers if not talker.done]:
        pause(server)
        for talker in left:
            talker.send()
        server.signal(SIGCONT)
        for talker in left:
            while not talker.receive(by_lines):
                pass


def pause(server: Server) -> None:
    """Stop all threads of the server, which must be a child of this process."""
    server.signal(SIGSTOP)
    server.check_alive()
    os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
    server.check_alive()
