"""The demo from start to end: three regions, the stories, the proof, and then whatever the user likes to try.

All goes well or is named: a reply that was not expected, a state that differs, a region that ended. The exit code says
which. SIGTERM, SIGHUP and Ctrl-C stop the regions and remove their data.
"""

from __future__ import annotations

import signal
import time
from types import FrameType

from rich.console import Console

from crdtstream.demo import show
from crdtstream.demo.cluster import NAMES, Cluster
from crdtstream.demo.player import Outcome, Player
from crdtstream.demo.proof import prove_keys
from crdtstream.demo.stories import KEYS, STORIES
from crdtstream.demo.story import Story
from crdtstream.demo.waiting import DemoError

HELD = 0
BROKEN = 1
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LOOK_AFTER_S = 0.5


def run_demo(
    once: bool, port_base: int = 0, stories: tuple[Story, ...] = STORIES, console: Console | None = None
) -> int:
    """The exit code."""
    console = console or show.make_console()
    handlers = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        return Demo(console, stories).run(once, port_base)
    except DemoError as error:
        show.show_verdict(console, [str(error)], 0)
        return BROKEN
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def interrupt(number: int, frame: FrameType | None) -> None:
    """Once: the clean-up that follows is not to be interrupted."""
    for each in SIGNALS:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


class Demo:
    """What was told, and what of it did not hold."""

    def __init__(self, console: Console, stories: tuple[Story, ...]) -> None:
        self._console = console
        self._stories = stories
        self._complaints: list[str] = []

    def run(self, once: bool, port_base: int) -> int:
        self._console.print("Starting three regions ...", style="dim")
        with Cluster(port_base) as cluster:
            self._tell(cluster)
            if not once:
                self._stay(cluster)
        return BROKEN if self._complaints else HELD

    def _tell(self, cluster: Cluster) -> None:
        show.show_regions(self._console, cluster)
        try:
            self._tell_stories(cluster)
            self._prove(cluster)
        except DemoError as error:
            self._complaints.append(str(error))
        show.show_verdict(self._console, self._complaints, len(self._stories))

    def _tell_stories(self, cluster: Cluster) -> None:
        player = Player(cluster)
        for number, story in enumerate(self._stories, 1):
            outcomes: list[Outcome] = []
            try:
                player.play(story, outcomes)
            finally:
                show.show_story(self._console, number, story, outcomes)
                self._complaints += [complaint for outcome in outcomes for complaint in outcome.complaints]

    def _prove(self, cluster: Cluster) -> None:
        cluster.open_links(NAMES)
        cluster.await_agreement(NAMES)
        proofs = prove_keys(cluster, KEYS)
        show.show_proofs(self._console, proofs)
        self._complaints += [proof.complaint for row in proofs.values() for proof in row if not proof.holds]

    def _stay(self, cluster: Cluster) -> None:
        """Until a signal; raises DemoError when a region ends before."""
        show.show_invitation(self._console, cluster)
        try:
            while True:
                cluster.check_alive()
                time.sleep(LOOK_AFTER_S)
        except KeyboardInterrupt:
            self._console.print("Stopping ...", style="dim")
