"""What SIGINT and SIGTERM do to a job: it ends with one sentence, without the stacks of Python and of the JVM.

A job runs in a thread of its own, so that the main thread, which alone gets signals in Python, is free for them. In the
main thread a job would be interrupted in the middle of a question to the JVM, whose answer its next question would take
for its own. PySpark's handler of SIGINT does that; a session of another thread does not install it.

The first signal ends a job; of one that can end well on its own it is a wish (`asked`), and the next one ends it.
Whatever comes after that ends the process at once.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, suppress
from functools import partial, wraps
from io import StringIO
from types import FrameType
from typing import Any, Final, NoReturn, ParamSpec

import typer

from crdtstream.spark import bars

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
POLL_S: Final = 0.5
# How long the thread of a job may take to see that its session is gone.
GRACE_S: Final = 2.0
# How long a query may take for its batch.
QUERY_S: Final = 20
# What a shell adds to the number of the signal that has ended a program.
OF_SIGNAL: Final = 128

# Whether this thread launches a JVM.
LAUNCHING: Final = threading.local()

P = ParamSpec("P")


class Signalled(BaseException):
    """A signal has come, in the main thread."""


class JobSignals:
    """The only job of a process; `session` is what it has of Spark, `asked` whether it is to end well."""

    def __init__(self) -> None:
        self.session: Any = None
        self.asked = threading.Event()

    def says(self, again: str, gently: bool = False) -> Callable[[Callable[P, None]], Callable[P, None]]:
        """Have a command end at a signal with this sentence about what a repeated run does."""

        def made(command: Callable[P, None]) -> Callable[P, None]:
            @wraps(command)
            def run(*given: P.args, **named: P.kwargs) -> None:
                self._run(partial(command, *given, **named), f"{command.__name__} was stopped: {again}", gently)

            return run

        return made

    def _run(self, job: Callable[[], None], sentence: str, gently: bool) -> None:
        self.session, outcome = None, Future[None]()
        self.asked.clear()
        with signals_to(partial(self._signalled, gently)):
            try:
                threading.Thread(target=keep_outcome, args=(outcome, job), daemon=True).start()
                while not wait([outcome], POLL_S).done:
                    pass
            except Signalled as signalled:
                # It may have ended just before.
                if not outcome.done():
                    self._stop(outcome, sentence, signalled.args[0])
        outcome.result()

    def _signalled(self, gently: bool, number: int, _frame: FrameType | None) -> None:
        if gently and not self.asked.is_set():
            self.asked.set()
            return
        for each in SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        raise Signalled(number)

    def _stop(self, outcome: Future[None], sentence: str, number: int) -> NoReturn:
        bars.hide()
        typer.echo(f"crdtstream spark: {sentence}", err=True)
        be_silent()
        if self.session is not None:
            stop_session(self.session)
            wait([outcome], GRACE_S)
        if outcome.done():
            sys.exit(OF_SIGNAL + number)
        # An exit of Python would end that thread in the midst of a library, some of which crash. The JVM ends, too.
        signal.raise_signal(number)
        sys.exit(OF_SIGNAL + number)


def keep_outcome(outcome: Future[None], job: Callable[[], None]) -> None:
    try:
        job()
    except BaseException as error:  # An exit, too, is for the main thread.
        outcome.set_exception(error)
    else:
        outcome.set_result(None)


@contextmanager
def jvm_of_driver() -> Iterator[None]:
    """A JVM that is launched here ignores SIGTERM, as PySpark has it ignore SIGINT. It ends with the driver, and not
    before it, with stacks, where the signal goes to all processes of a service.
    """
    LAUNCHING.jvm = True
    try:
        yield
    finally:
        LAUNCHING.jvm = False


def ignore_in_jvm() -> None:
    if getattr(LAUNCHING, "jvm", False):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


if hasattr(os, "register_at_fork"):  # Not on Windows, which has no such signals either.
    os.register_at_fork(after_in_child=ignore_in_jvm)


def be_silent() -> None:
    """What is printed from now on is of threads that do not find their session any more, or a summary of half a job."""
    sys.stdout.flush()
    sys.stdout = sys.stderr = StringIO()


def stop_session(session: Any) -> None:
    """Cancel what runs, end the workers, and remove temporary files."""
    from py4j.protocol import Py4JError

    # A JVM that has got the signal, too, is gone.
    with suppress(Py4JError, OSError), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Of tasks that do not find their session any more.
        session.sparkContext.setLogLevel("OFF")
        try:
            stop_queries(session)
        finally:
            session.stop()


def stop_queries(session: Any) -> None:
    """A query prints a stack if its session is gone before it."""
    session.conf.set("spark.sql.streaming.stopTimeout", f"{QUERY_S}s")
    for query in session.streams.active:
        query.stop()


@contextmanager
def signals_to(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Where another thread runs a command, signals stay with the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [signal.signal(each, handler) for each in SIGNALS]
    try:
        yield
    finally:
        for each, previous in zip(SIGNALS, before, strict=True):
            signal.signal(each, previous)
