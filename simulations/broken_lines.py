"""The lines that are broken on purpose; `mutations.py` tries each of them.

Invariant: the text that a mutation replaces occurs exactly once in its file; a test fails when the code has moved on.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """A broken line: its file in the package, the text before and after, and the checker that notices it first from
    seed 0 on. With `alone` that checker runs without the others, which would notice it earlier. Where only a rare
    combination shows the break, `focus` fixes some of the worlds' settings (`settings.Settings`), for the comparison
    with the unbroken code as well.

    `crash` stands for an exception, `rot` for a start or a run that ends because of damage although nothing was
    damaged.
    """

    name: str
    path: str
    before: str
    after: str
    checker: str
    alone: bool = False
    focus: Mapping[str, Any] = field(default_factory=dict)

    @property
    def watcher(self) -> str:
        """The only checker that runs; empty for all."""
        return self.checker if self.alone else ""


MUTATIONS = (
    Mutation(
        "the ack frontier ignores pending entries",
        "core/groups/runs.py",
        "    first = pending.first(tree.origin)\n    if first is None:\n        return ID_MAX\n",
        "    return ID_MAX\n    first = pending.first(tree.origin)\n",
        "ack frontier",
    ),
    Mutation(
        "a destroy leaves no tombstone",
        "core/streams/stream.py",
        "        tombstones[origin] = counter\n        self",
        "        self",
        "convergence",
    ),
    Mutation(
        "a DEL leaves no tombstone",
        "core/streams/stream.py",
        "        self.deleted = {**self.deleted, origin: counter}\n",
        "",
        "delete wins",
    ),
    Mutation(
        "a DEL forgets concurrent destroys",
        "core/streams/stream.py",
        "        self.forget_tombstones(context)\n        self.deleted =",
        "        self.destroyed = {}\n        self.deleted =",
        "convergence",
    ),
    Mutation(
        "a DEL removes what it has not seen",
        "core/streams/stream.py",
        "tree.remove_through(covered)",
        "tree.remove_through(1 << 60)",
        "deletions",
    ),
    Mutation(
        "a DEL keeps the groups",
        "core/streams/stream.py",
        "        self.groups = _NO_GROUPS\n        # A create",
        "        # A create",
        "delete wins",
        alone=True,
    ),
    Mutation(
        "a create needs no knowledge of destroys",
        "core/streams/stream.py",
        "        for tombstones in (self.deleted, self.destroyed.get(group, {})):",
        "        for tombstones in (self.deleted,):",
        "convergence",
    ),
    Mutation(
        "a run is kept under one create only",
        "core/groups/group.py",
        "alive = counted(self.creates, creates, resets)\n",
        "alive = counted(self.creates, creates, resets)[:1]\n",
        "runs",
    ),
    Mutation(
        "a run counts for creates that it does not name",
        "core/groups/group.py",
        "alive = counted(self.creates, creates, resets)\n",
        "alive = list(self.creates.values())\n",
        "ack frontier",
    ),
    Mutation(
        "a lower start of a joined create exposes nothing",
        "core/groups/group.py",
        "        self.floor = self.floor.meet(start)\n",
        "",
        "delivery",
    ),
    Mutation(
        "DELCONSUMER keeps what it lost as delivered",
        "core/groups/group.py",
        "                self.delivered[origin] = delivered.minus(lost)\n",
        "",
        "invariants",
    ),
    Mutation(
        "facts are replayed after their whole batch",
        "core/applying.py",
        "            if self._waiting_facts and batch.origin == self.origin:\n                self._release_facts()\n",
        "        if self._waiting_facts and batch.origin == self.origin:\n            self._release_facts()\n",
        "crash",
    ),
    Mutation(
        "facts are replayed before their batch",
        "core/applying.py",
        "        while self._waiting_facts and self._waiting_facts[0][0] <= counter:",
        "        while self._waiting_facts:",
        "crash",
    ),
    Mutation(
        "an XDEL names one counter too many",
        "commands/removing.py",
        "        ranges[origin] = ranges_of(counters[origin])",
        "        ranges[origin] = [(low, high + 1) for low, high in ranges_of(counters[origin])]",
        "observed remove",
    ),
    Mutation(
        "IDs are minted without the residue",
        "core/values/entry_id.py",
        "        return (now_ms, residue)",
        "        return (now_ms, 1)",
        "unique IDs",
    ),
    Mutation(
        "no gate for dependencies",
        "replication/log/inbox.py",
        "if vector.admits(origin, header.first, header.context) and",
        "if header.first == vector.get(origin) + 1 and",
        "crash",
    ),
    Mutation(
        "only own batches are sent",
        "replication/links/feed.py",
        "if origin in self.direct and origin != own_origin:",
        "if origin != own_origin:",
        "convergence",
    ),
    Mutation(
        "what a peer has applied is not noted",
        "replication/links/feed.py",
        "        if applied is not None:\n            self.record_covered(applied)\n",
        "",
        "echo",
    ),
    Mutation(
        "a Hello does not name the batches that it has begun",
        "replication/links/session.py",
        "        message.hello.unfinished.extend(view.assemblies.rows())\n",
        "",
        "parts",
    ),
    Mutation(
        "peers see what is not synced, under always",
        "region/node.py",
        "        if records and not self.outputs.holds:",
        "        if records:",
        "synced first",
    ),
    Mutation(
        "replies do not wait for the disk, under always",
        "connections/outputs.py",
        "        if not self.holds:",
        "        if True:",
        "lost write",
    ),
    Mutation(
        "a sync forgets the directory",
        "storage/log.py",
        "                self._disk.sync_directory()\n        except",
        "                pass\n        except",
        "lost write",
        focus={"faults": ("power", "torn", "cut"), "checkpoint_interval_ms": 0, "twin": ""},
    ),
    Mutation(
        "a sync forgets the sealed segments",
        "storage/log.py",
        "            for segment in sealed:\n                self._disk.sync(segment.name)\n",
        "            for segment in sealed:\n",
        "rot",
    ),
    Mutation(
        "damage below a synced position is cut",
        "storage/recovery.py",
        "        self._refuse_with_witness(damage, names)\n",
        "",
        "recovery",
    ),
    Mutation(
        "a manifest before the log is synced",
        "storage/checkpoint.py",
        "        assert self._log.sync() >= manifest.through\n",
        "",
        "rot",
    ),
    Mutation(
        "tombstones are collected by what is applied",
        "replication/values/progress.py",
        "        return VersionVector() if member is None else member.counted.copy()",
        "        return VersionVector() if member is None else member.applied.copy()",
        "collection",
    ),
    Mutation(
        "a join keeps entries that the other side has seen go",
        "core/joining.py",
        "    ranges = before.ranges + lacking(mine, theirs, their_known, before.through + 1)\n",
        "    ranges: list[CounterRange] = []\n",
        "crash",
    ),
    Mutation(
        "a join keeps creates that the other side has seen die",
        "core/joining.py",
        "        if dot in others or (covers and not other_vector.contains(dot[0], dot[1]))\n",
        "",
        "convergence",
    ),
    Mutation(
        "an expiry is never taken over",
        "core/expiring.py",
        "applied.members.is_evicted(origin) or expires_ms + takeover_ms < keyspace.now_ms",
        "applied.members.is_evicted(origin)",
        "expiry",
    ),
    Mutation(
        "the shortest expiry wins",
        "core/streams/stream.py",
        "        self.expires_ms = expiries[-1][0] if",
        "        self.expires_ms = expiries[0][0] if",
        "invariants",
    ),
    Mutation(
        "an expiry replaces only those of its own origin",
        "core/streams/stream.py",
        "        for holder, meta in self._expiring.items():\n            meta.void_expiry(context.get(holder))\n",
        "",
        "longest expiry",
        alone=True,
    ),
    Mutation(
        "an add to an expired key keeps what was there",
        "core/replica.py",
        "        elif stream.length == 0 or stream.is_hidden(keyspace.now_ms):",
        "        elif stream.length == 0:",
        "hidden key",
        alone=True,
    ),
    Mutation(
        "a create beyond an eviction counts",
        "core/members.py",
        "        return counter > self._ends.get(origin, NEVER)",
        "        return False",
        "audit",
    ),
    Mutation(
        "an evicted region goes on as it was",
        "replication/membership/membership.py",
        "        if members.has_ended(self._birth.origin):\n",
        "        if False:\n",
        "convergence",
    ),
    Mutation(
        "a joined state leaves no gap",
        "replication/log/history.py",
        "        self._gaps.append((position, gap))\n        self._await",
        "        self._await",
        "convergence",
    ),
    Mutation(
        "replay applies what a checkpoint has",
        "core/applying.py",
        "            if not self._captured or self._captured.get(effect.key, 0) < position:",
        "            if True:",
        "crash",
    ),
    Mutation(
        "a removal takes the first range of an origin alone",
        "core/streams/stream.py",
        "        tree.remove_ranges(pieces)\n",
        "        tree.remove_ranges(pieces[:1])\n",
        "observed remove",
    ),
    Mutation(
        "an expiry stays that the next effect replaces",
        "core/streams/origin_meta.py",
        "if self.expiry_counter <= covered:",
        "if self.expiry_counter < covered:",
        "expiry",
    ),
    Mutation(
        "a join takes what lies above the last entry here",
        "core/joining.py",
        "    first = theirs.first_above(known)\n    if first is not None:\n        mine",
        "    last = last_of(mine)\n    first = theirs.first_above(0 if last is None else last[1])\n"
        "    if first is not None:\n        mine",
        "resurrection",
        alone=True,
    ),
    Mutation(
        "a gap counts what is missing",
        "replication/log/turn.py",
        "{origin: count for origin, count in state.vector.items() if",
        "{origin: count - own.get(origin) for origin, count in state.vector.items() if",
        "origin order",
    ),
    Mutation(
        "a log that was cut has no milestone at its beginning",
        "replication/log/history.py",
        "            self._mark_beginning()\n",
        "",
        "resume",
    ),
    Mutation(
        "a restart tells no vector",
        "replication/links/session.py",
        "            message.links.vector.extend(vector_rows(view.replica.applied.vector))\n",
        "",
        "echo",
    ),
    Mutation(
        "progress of others is not passed on",
        "replication/links/session.py",
        "rows = [row for row in view.progress.rows() if row[0] not in (own, self.peer_origin)]",
        "rows: list[ProgressRow] = []",
        "bounded memory",
        alone=True,
    ),
    Mutation(
        "a reader goes on in a segment that has ended",
        "storage/log.py",
        "if stop is not None and position <= stop[0].last:",
        "if stop is not None:",
        "damage",
    ),
    Mutation(
        "a restart keeps its origin",
        "replication/origins/birth.py",
        "        self.become_new(turn)\n",
        "        if not self.origin:\n            self.become_new(turn)\n        else:\n"
        "            self._replica.become(self.origin, residue_of(self._config.region, self.count))\n"
        "            turn.add(codec.START, codec.encode_start(self.origin, self.count))\n",
        "unique dots",
        alone=True,
    ),
    Mutation(
        "an origin takes no number beyond what is known",
        "replication/origins/birth.py",
        "        count = self._highest(self._config.region) + 1\n        self._adopt",
        "        count = max(0, self._highest(self._config.region))\n        self._adopt",
        "unique IDs",
        focus={"faults": ("power", "clock", "cut"), "id_mode": "strict", "twin": ""},
    ),
    Mutation(
        "an admission by all waits for nobody",
        "replication/membership/membership.py",
        "        elif all(self._holds_join(replaced.get(origin, origin)) for origin in counted)"
        " and self._evictors_hold_join():",
        "        elif self._applied.members.joins_of(own):",
        "collection",
    ),
    Mutation(
        "a sponsor evicts before it holds the predecessor's tail",
        "replication/membership/membership.py",
        "        return self._applied.vector.contains(origin, max(known))",
        "        return True",
        "lost group",
        focus={
            "faults": ("kill", "clog", "slow"),
            "profile": "rebirths",
            "twin": "",
            "regions": 2,
            "fault_interval_ms": 150,
            "pull_ms": 20,
        },
    ),
    Mutation(
        "a batch names nothing of its context",
        "core/applying.py",
        "        known.merge(news)\n        known.advance(self.origin, self.counter())\n        return news",
        "        known.merge(news)\n        known.advance(self.origin, self.counter())\n        return VersionVector()",
        "room",
    ),
    Mutation(
        "what a joined state brought is no news",
        "core/applying.py",
        "                self._news[origin] = None\n                self.contexts.pop",
        "                self.contexts.pop",
        "convergence",
    ),
    Mutation(
        "a live origin is replaced at once",
        "replication/membership/failure_detector.py",
        "        limits = self._exchange.view.settings.limits\n",
        "        return False\n        limits = self._exchange.view.settings.limits\n",
        "bounds",
    ),
    Mutation(
        "the tail of an evicted origin is dropped",
        "replication/exchange/arrivals.py",
        "        own = self._applied\n",
        "        own = self._applied\n        if own.members.is_evicted(header.origin):\n            return True\n",
        "convergence",
    ),
    Mutation(
        "a joined state brings no members",
        "core/applying.py",
        "        self.members.join(state.members, self.vector, state.vector)\n",
        "        self.members.join(type(state.members)(), self.vector, state.vector)\n",
        "convergence",
    ),
    Mutation(
        "contexts of ended origins are kept",
        "core/applying.py",
        "            if stable.contains(origin, self.vector.get(origin)):\n                del",
        "            if stable.contains(origin, self.vector.get(origin) + 1):\n                del",
        "bounded memory",
    ),
    Mutation(
        "a batch whose context is forgotten is dropped",
        "replication/exchange/arrivals.py",
        "            self._need_state(header, links)\n",
        "            pass\n",
        "convergence",
    ),
    Mutation(
        "a fetch does not say that nobody offered the state",
        "replication/links/handover.py",
        "        unoffered = self.demanded or self._unoffered is not None\n",
        "        unoffered = self.demanded\n",
        "convergence",
    ),
    Mutation(
        "a batch is applied whose context was forgotten",
        "replication/log/screening.py",
        "    if batch.first != 1 and batch.origin not in replica.applied.contexts:",
        "    if False:",
        "crash",
    ),
    Mutation(
        "a batch is sent that the peer does not take",
        "replication/links/feed.py",
        "        if len(payload) > self.batch_bytes_max:\n",
        "        if False:\n",
        "bounds",
        focus={"bounded": True, "late": True},
    ),
    Mutation(
        "a turn makes one batch, however large",
        "core/values/batch_budget.py",
        "        if self.open_bytes >= self.cut_bytes and not self.whole:\n",
        "        if False:\n",
        "ack frontier",
        focus={"bounded": True, "turn_commands_max": 6},
    ),
    Mutation(
        "messages are as large as their sender takes",
        "replication/links/session.py",
        "        bytes_max = min(bytes_max, self.bounds.message_bytes)\n",
        "        pass\n",
        "bounds",
        alone=True,
        focus={"bounded": True},
    ),
    Mutation(
        "a directory that wrote alone founds nothing",
        "replication/membership/membership.py",
        "        self.own.start(self._birth.was_in_cluster(), holds_data)\n",
        "        self.own.start(self._birth.was_in_cluster() or holds_data, holds_data)\n",
        "collection",
    ),
)
