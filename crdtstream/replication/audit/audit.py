"""Regions at equal vectors compare hash sums of their state in the background and report differences.

A region that is quiet, and linked to a peer known to be at the same vector, builds a hash tree, one step a tick, and
then sends its peers the sums of the whole. A peer that has its own tree at that vector compares them; a peer that has
none yet starts to build one. Where sums differ, each side sends its own sums and those of narrower scopes, until both
have found the differing entries, runs or row, and each reports them. If the vector changes, the comparison ends,
because the tree no longer describes the state; the next one begins `audit_interval_ms` later, when the region is quiet.

Regions that applied the same effects have equal state, so any difference is a fault. Its cause is known in one case:
the two regions hold different entries under one **dot**. Then two processes have continued as that origin, because the
memory of one was cloned. The remedy is always the same (start_over.py), and every report names it.

The audit changes no replicated state, and nothing but its report depends on it.

Reference: DeCandia et al., "Dynamo" (2007), section 4.7, for comparing hash trees between replicas.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import Final

from crdtstream.core import merkle
from crdtstream.core.deferred_work import DeferredWork
from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector, origin_name, region_of
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.audit.hash_tree import (
    KEY_DEPTH,
    MEMBERS,
    PORTION_DEPTH,
    HashTree,
    Scope,
    differing,
    leads_on,
    narrower,
)
from crdtstream.replication.values.progress import ProgressTable
from crdtstream.replication.values.remedy import REMEDY
from crdtstream.replication.values.wire_values import WireError, to_vector, vector_rows
from crdtstream.settings.config import Limits
from crdtstream.status.events import Notice

WHOLE: Final[Scope] = ()
SCOPES_MAX: Final = 256
NEVER_MS: Final = -(1 << 63)
SHOWN_MAX: Final = 5
NAME_CHARACTERS_MAX: Final = 200


class Comparison:
    """The comparison with one peer at one vector: sums already sent, sums to send, and differences found."""

    __slots__ = ("compared", "differs", "due", "reported", "told")

    def __init__(self) -> None:
        self.told: set[Scope] = set()
        self.due: deque[wire.Audit] = deque()
        self.compared = False
        self.differs = False
        self.reported: set[Scope] = set()


class Audit:
    """Compares the sums of this region's state with those of its peers."""

    __slots__ = (
        "_asked",
        "_comparisons",
        "_early",
        "_ended_ms",
        "_name",
        "_notices",
        "_replica",
        "_seen",
        "_shared",
        "comparisons",
        "deferred_work",
        "differences",
        "last_ms",
        "rounds",
        "tree",
    )

    def __init__(self, name: str, replica: Replica, notices: list[Notice]) -> None:
        self.rounds = 0
        self.comparisons = 0
        self.differences = 0
        self.last_ms = 0
        self._name = name
        self._replica = replica
        self.deferred_work = DeferredWork(replica)
        self._notices = notices
        self.tree: HashTree | None = None
        self._comparisons: dict[int, Comparison] = {}
        self._early: dict[int, tuple[str, wire.Audit]] = {}
        self._asked = False
        self._ended_ms = NEVER_MS
        self._seen = VersionVector()
        self._shared: dict[int, None] = {}

    # Time

    def tick(self, now_ms: int, limits: Limits, peers: list[int], progress: ProgressTable) -> None:
        """Advance time; `peers` are the origins with an open link."""
        self._ended_ms = min(self._ended_ms, now_ms)
        for peer in [peer for peer in self._comparisons if peer not in peers]:
            self.leave(peer)
        if self.tree is not None and (self.tree.vector != self._replica.applied.vector or not limits.audit_interval_ms):
            self._end(now_ms)
        if self.tree is None and limits.audit_interval_ms:
            self._begin(now_ms, limits.audit_interval_ms, peers, progress)
        tree = self.tree
        if tree is None:
            return
        was_done = tree.done
        self.deferred_work.run("audit", partial(tree.step, limits.audit_entries_max))
        if tree.done and not was_done:
            self.rounds += 1
            self.last_ms = self._ended_ms = now_ms
        if tree.done:
            for peer in peers:
                self._queue_sums(tree, peer, WHOLE, "")
            self._compare_early(peers)

    def _begin(self, now_ms: int, interval_ms: int, peers: list[int], progress: ProgressTable) -> None:
        """Start a tree if nothing has changed since the last tick and an audit is due, or a peer has sent its sums."""
        vector = self._replica.applied.vector
        if vector != self._seen:
            self._seen = vector.copy()
            self._asked = False
            return
        due = now_ms - self._ended_ms >= interval_ms
        if self._asked or (due and any(progress.applied_of(origin) == vector for origin in peers)):
            self._asked = False
            self.tree = HashTree(self._replica)

    def _end(self, now_ms: int) -> None:
        """Discard the tree. A tree that was not finished also waits for the next interval."""
        self.tree = None
        self._ended_ms = now_ms
        self._early.clear()
        for peer in list(self._comparisons):
            self.leave(peer)

    def leave(self, peer: int) -> None:
        """Forget a peer whose link ended: messages to it may be lost, so the next link starts the comparison from the
        beginning.
        """
        comparison = self._comparisons.pop(peer, None)
        self._early.pop(peer, None)
        if comparison is not None and comparison.differs and not comparison.reported:
            text = f"region {self._name} and region {region_of(peer)} held different state at the same vector"
            text += "; the vector or the link changed before the difference was located"
            self._notices.append(Notice("difference-not-located", text))

    # Said

    def _queue_sums(self, tree: HashTree, peer: int, scope: Scope, key: str) -> None:
        """Queue the sums of a scope for a peer, once per scope."""
        comparison = self._comparisons.get(peer)
        if comparison is None:
            comparison = self._comparisons[peer] = Comparison()
        if scope in comparison.told or len(comparison.told) >= SCOPES_MAX:
            return
        rows = tree.rows(scope)
        if rows is None:
            return
        comparison.told.add(scope)
        labels = sorted(rows)
        comparison.due.append(
            wire.Audit(
                vector=vector_rows(tree.vector),
                scope=scope,
                labels=labels,
                sums=[rows[label] for label in labels],
                key=key,
            )
        )

    def due(self, peer: int) -> wire.Audit | None:
        """Return the next sums for this peer, or None."""
        comparison = self._comparisons.get(peer)
        if comparison is None or not comparison.due or self._standing() is None:
            return None
        return comparison.due.popleft()

    def _standing(self) -> HashTree | None:
        """Return the tree if it is finished and still describes the state."""
        tree = self.tree
        return tree if tree is not None and tree.done and tree.vector == self._replica.applied.vector else None

    # Heard

    def receive(self, peer: int, name: str, heard: wire.Audit) -> None:
        if len(heard.labels) != len(heard.sums):
            raise WireError(f"an audit message has {len(heard.sums)} sums for {len(heard.labels)} labels")
        if to_vector(heard.vector) != self._replica.applied.vector:
            return
        tree = self._standing()
        if tree is not None:
            self._compare(tree, peer, name, heard)
        elif not heard.scope:
            self._asked = True
            self._early[peer] = (name, heard)

    def _compare_early(self, peers: list[int]) -> None:
        """Compare the sums that arrived before the local tree was finished."""
        early = sorted(self._early.items())
        self._early.clear()
        for peer, (name, heard) in early:
            if peer in peers:
                self.receive(peer, name, heard)

    def _compare(self, tree: HashTree, peer: int, name: str, heard: wire.Audit) -> None:
        scope = tuple(heard.scope)
        own = tree.rows(scope)
        if own is None:
            return
        theirs = dict(zip(heard.labels, heard.sums, strict=True))
        labels = differing(own, theirs)
        self._queue_sums(tree, peer, scope, heard.key[:NAME_CHARACTERS_MAX])
        comparison = self._comparisons[peer]
        if scope == WHOLE and not comparison.compared:
            comparison.compared = True
            self.comparisons += 1
        if labels and not comparison.differs:
            comparison.differs = True
            self.differences += 1
        key = self._shown_key(tree, scope) or heard.key[:NAME_CHARACTERS_MAX]
        # A portion that one side lacks entirely differs in all its parts: one line says so.
        if len(scope) == PORTION_DEPTH and not (own and theirs):
            found = [f"all of it is in region {self._name if own else name} only"] if labels else []
        else:
            for inner in narrower(scope, labels):
                self._queue_sums(tree, peer, inner, self._shown_key(tree, inner) or key)
            found = [self._shown(label, own, theirs, name) for label in labels if not leads_on(scope, label)]
        if found and scope not in comparison.reported and len(comparison.reported) < SCOPES_MAX:
            comparison.reported.add(scope)
            self._report(name, place(scope, key), found, self._cause(tree, scope, shared_counter(labels, own, theirs)))

    def _shown_key(self, tree: HashTree, scope: Scope) -> str:
        """Return the name of the key that the scope lies in, if this region has it."""
        key = tree.key_of(scope) if len(scope) >= PORTION_DEPTH else None
        if key is None:
            return ""
        text = f"{key[1].decode('utf-8', 'backslashreplace')[:NAME_CHARACTERS_MAX]!r}"
        return text if key[0] == 0 else f"{text} of database {key[0]}"

    def _shown(self, label: bytes, own: merkle.PortionSums, theirs: merkle.PortionSums, name: str) -> str:
        text = label.decode("utf-8", "backslashreplace")[:NAME_CHARACTERS_MAX]
        if label in own and label in theirs:
            return f"{text} differs"
        return f"{text} is in region {self._name if label in own else name} only"

    def _cause(self, tree: HashTree, scope: Scope, counter: int) -> str:
        """Return the cause if the sides hold different entries under one dot; otherwise an empty text."""
        origin = tree.origin_of(scope)
        if not origin or not counter:
            return ""
        self.record_shared_origin(origin)
        return (
            f"; these are different effects under one dot, {origin_name(origin)}:{counter}: two processes continued as"
            " that origin, because the memory of one was cloned"
        )

    def record_shared_origin(self, origin: int) -> None:
        """Record that two processes have made effects as this origin."""
        self._shared[origin] = None

    def shared_origins(self) -> list[int]:
        return sorted(self._shared)

    def _report(self, name: str, where: str, found: list[str], cause: str) -> None:
        more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        text = ", ".join(found[:SHOWN_MAX]) + more
        self._notices.append(
            Notice(
                "state-differs",
                f"region {self._name} and region {name} hold different state at the same vector: {where}:"
                f" {text}{cause}. {REMEDY}",
            )
        )

    def check(self) -> None:
        if self.tree is not None:
            self.tree.check()
        for comparison in self._comparisons.values():
            assert len(comparison.due) <= len(comparison.told) <= SCOPES_MAX, (
                "more sums are queued than scopes were chosen"
            )
            assert comparison.differs or not comparison.reported, "a report without a difference"


def shared_counter(labels: list[bytes], own: merkle.PortionSums, theirs: merkle.PortionSums) -> int:
    """Among differing labels `counter ms-seq`, return a counter under which both sides have an entry; 0 for none."""
    here = {label.partition(b" ")[0] for label in labels if label in own}
    there = {label.partition(b" ")[0] for label in labels if label in theirs}
    return min([int(counter) for counter in here & there if counter.isdigit()], default=0)


def place(scope: Scope, key: str) -> str:
    """Describe a scope for people."""
    if scope and scope[0] == MEMBERS:
        return "table of members"
    if len(scope) <= KEY_DEPTH:
        return "keys"
    words = [f"key {key}"]
    if len(scope) > PORTION_DEPTH:
        words.append(scope[PORTION_DEPTH].decode("utf-8", "backslashreplace")[:NAME_CHARACTERS_MAX])
    return ", ".join(words)
