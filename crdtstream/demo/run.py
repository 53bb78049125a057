"""The whole demo: three regions, the stories, the proof, and then the regions stay up for the user.

Everything that does not hold is reported: an unexpected reply, a state that differs, a region that ended. The exit code
reflects it. SIGTERM, SIGHUP and Ctrl-C stop the regions and remove their data.
"""

from __future__ import annotations

import signal
import time
from contextlib import nullcontext
from pathlib import Path
from types import FrameType

from rich.console import Console

from crdtstream.demo import show
from crdtstream.demo.cluster import NAMES, Cluster, DemoError
from crdtstream.demo.companions import beside, dashboard_beside
from crdtstream.demo.player import Outcome, Player
from crdtstream.demo.proof import prove_keys
from crdtstream.demo.story import KEYS, Story, all_stories
from crdtstream.processes.waiting import ProcessError

HELD = 0
BROKEN = 1
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_AFTER_S = 0.5


def run_demo(
    once: bool,
    port_base: int = 0,
    stories: tuple[Story, ...] | None = None,
    console: Console | None = None,
    spark: str = "",
    keep: Path | None = None,
    loads: bool = False,
    shards: int = 1,
) -> int:
    """Run the demo, with all stories unless some are given; return the exit code. With `spark`, a Spark master, the
    pipeline is shown instead. `loads`: a workload runs while the regions stay up. `shards`: of each region.
    """
    console = console or show.make_console()
    stories = all_stories() if stories is None else stories
    handlers = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        if spark:
            return show_pipeline(console, spark, keep, shards)
        return Demo(console, stories, loads, shards).run(once, port_base)
    except ProcessError as error:
        show.show_verdict(console, [str(error)], 0)
        return BROKEN
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def interrupt(_number: int, _frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt once; the following clean-up must not be interrupted."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def show_pipeline(console: Console, master: str, keep: Path | None, shards: int) -> int:
    # Spark is an optional extra; nothing else in the demo needs it.
    try:
        from crdtstream.demo.pipeline import run_pipeline
    except ImportError as error:
        raise DemoError(
            f"{error}: the demo of the pipeline needs pip install 'crdtstream[spark]' and Java 17"
        ) from error
    complaints = run_pipeline(console, keep, master, shards)
    show.show_result(console, complaints, "each archive has every acknowledged add once, and the regions are alike.")
    return BROKEN if complaints else HELD


class Demo:
    """Tells the stories and collects what did not hold."""

    def __init__(self, console: Console, stories: tuple[Story, ...], loads: bool = False, shards: int = 1) -> None:
        self._console = console
        self._stories = stories
        self._loads = loads
        self._shards = shards
        self._complaints: list[str] = []

    def run(self, once: bool, port_base: int) -> int:
        self._console.print("Starting three regions ...", style="dim")
        with Cluster(port_base, shards=self._shards) as cluster:
            self._run_stories(cluster)
            if not once:
                self._stay(cluster)
        return BROKEN if self._complaints else HELD

    def _run_stories(self, cluster: Cluster) -> None:
        show.show_regions(self._console, cluster)
        try:
            self._print_stories(cluster)
            self._prove(cluster)
        except ProcessError as error:
            self._complaints.append(str(error))
        show.show_verdict(self._console, self._complaints, len(self._stories))

    def _print_stories(self, cluster: Cluster) -> None:
        player = Player(cluster)
        for number, story in enumerate(self._stories, 1):
            outcomes: list[Outcome] = []
            try:
                player.play(story, outcomes)
            finally:
                show.show_story(self._console, number, story, outcomes)
                self._complaints += [complaint for outcome in outcomes for complaint in outcome.complaints]

    def _prove(self, cluster: Cluster) -> None:
        cluster.reset_links()
        cluster.open_links(NAMES)
        cluster.await_agreement(NAMES)
        proofs = prove_keys(cluster, KEYS)
        show.show_proofs(self._console, proofs)
        self._complaints += [proof.complaint for row in proofs.values() for proof in row if not proof.holds]

    def _stay(self, cluster: Cluster) -> None:
        """Wait for a signal; raises ProcessError if a region ends before."""
        try:
            load = beside(cluster, "load", ["demo", "--load"]) if self._loads else nullcontext()
            with load, dashboard_beside(cluster) as dashboard:
                show.show_invitation(self._console, cluster, dashboard)
                while True:
                    cluster.check_alive()
                    time.sleep(LOOK_AFTER_S)
        except KeyboardInterrupt:
            self._console.print("Stopping ...", style="dim")
