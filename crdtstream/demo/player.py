"""Plays stories on a cluster and records what each row produced and what did not hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from crdtstream.demo.cluster import Cluster, DemoError
from crdtstream.demo.proof import brief_digest
from crdtstream.demo.story import Cut, Differ, Heal, Row, Settle, Step, Story, Sync, show_reply
from crdtstream.processes.waiting import ProcessError


@dataclass(frozen=True, slots=True)
class Told:
    """One cell: a command and its reply, or what happened to the links."""

    command: str
    text: str
    holds: bool = True


@dataclass(slots=True)
class Outcome:
    """The result of one row: for each region what was done, what it produced, and whether that was expected."""

    moment: int
    cells: dict[str, Told]
    complaints: list[str] = field(default_factory=list)


class Player:
    """Plays stories one after the other."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def play(self, story: Story, outcomes: list[Outcome]) -> None:
        """Play a story, appending outcomes as they arrive; raises DemoError if it cannot continue."""
        self._cluster.hold_links()
        for moment, row in enumerate(story.rows, 1):
            try:
                outcomes.append(self._play_row(story, moment, row))
            except ProcessError as error:
                raise DemoError(f"{story.title}, t{moment}: {error}") from error

    def _play_row(self, story: Story, moment: int, row: Row) -> Outcome:
        if isinstance(row, tuple):
            return self._play_steps(story, moment, row)
        if isinstance(row, Differ):
            return self._compare(story, moment, row)
        return Outcome(moment, self._move(row))

    def _play_steps(self, story: Story, moment: int, steps: tuple[Step, ...]) -> Outcome:
        outcome = Outcome(moment, {})
        for step in steps:
            came, expected = self._run(step)
            outcome.cells[step.region] = Told(step.command, came, came == expected)
            if came != expected:
                complaint = f"{step.command} answered {came!r}, expected {expected!r}"
                outcome.complaints.append(f"{story.title}, t{moment}, {step.region}: {complaint}")
        return outcome

    def _run(self, step: Step) -> tuple[str, str]:
        """Return the actual and the expected result."""
        region = self._cluster.regions[step.region]
        before = region.own_counter()
        came = show_reply(step.argv, region.run(*step.argv))
        if step.effects is None:
            return came, step.reply
        made = region.own_counter() - before
        return came + effects_text(made), step.reply + effects_text(step.effects)

    def _move(self, row: Sync | Cut | Settle | Heal) -> dict[str, Told]:
        cluster = self._cluster
        if isinstance(row, Cut):
            cluster.link(row.one, row.other).cut()
            ends = ((row.one, row.other), (row.other, row.one))
            return {name: Told("", f"link to {other} cut") for name, other in ends}
        if isinstance(row, Sync):
            cluster.open_links(row.regions)
            cluster.await_agreement(row.regions)
            cluster.hold_links()
            return dict.fromkeys(row.regions, Told("", "sync"))
        if isinstance(row, Settle):
            cluster.await_agreement(row.regions)
            return dict.fromkeys(row.regions, Told("", "sync"))
        cluster.open_links(row.regions)
        cluster.await_agreement(row.regions)
        return dict.fromkeys(row.regions, Told("", "links open, sync"))

    def _compare(self, story: Story, moment: int, row: Differ) -> Outcome:
        digests = {name: self._cluster.regions[name].text_digest() for name in (row.one, row.other)}
        holds = digests[row.one] != digests[row.other]
        verdict = "unequal" if holds else "EQUAL"
        cells = {
            name: Told("CRDT.DIGEST", f"{brief_digest(digest)}, {verdict}", holds) for name, digest in digests.items()
        }
        complaint = f"{story.title}, t{moment}: the digests of {row.one} and {row.other} should differ, both are"
        return Outcome(moment, cells, [] if holds else [f"{complaint} {digests[row.one]}"])


def effects_text(count: int) -> str:
    return f", {('nothing', 'one effect')[count] if count < 2 else f'{count} effects'} to send"
