"""Regions at equal vectors compare the sums of their state in the background, and report where it differs.

A region that is quiet, and linked to one that is known to be at the same vector, builds a hash tree in steps, one a
tick, and tells its peers the sums of the whole. A peer that has its own tree at that vector compares; one that has none
yet begins it. Where sums differ, each side tells its own, and those of what is narrower, until both have found the
entries, the runs or the row: then each reports it. A vector that moves ends all this: the tree means nothing any more,
and the next one is begun `audit_interval_ms` later, once the region is quiet again.

Nothing here changes replicated state, and nothing depends on it but the report.

Reference: DeCandia et al., "Dynamo" (2007), section 4.7, for comparing hash trees between replicas.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from crdtstream.config import Limits
from crdtstream.core import portions
from crdtstream.core.causality import VersionVector
from crdtstream.core.replica import Replica
from crdtstream.replication import wire_pb2 as wire
from crdtstream.replication.greeting import WireError, to_vector, vector_rows
from crdtstream.replication.hash_tree import (
    KEY_DEPTH,
    MEMBERS,
    PORTION_DEPTH,
    HashTree,
    Scope,
    differing,
    leads_on,
    narrower,
)
from crdtstream.replication.progress import ProgressTable

WHOLE: Final[Scope] = ()
SCOPES_MAX: Final = 256
NEVER_MS: Final = -(1 << 63)
SHOWN_MAX: Final = 5
NAME_CHARACTERS_MAX: Final = 200

Notice = tuple[str, Exception | None]


class Comparison:
    """With one peer, at one vector: what was told, what is to be told, and what was found."""

    __slots__ = ("compared", "differs", "due", "reported", "told")

    def __init__(self) -> None:
        self.told: set[Scope] = set()
        self.due: deque[wire.Audit] = deque()
        self.compared = False
        self.differs = False
        self.reported: set[Scope] = set()


class Audit:
    """What a region knows of the sums of its state, and of its peers'."""

    __slots__ = (
        "_asked",
        "_comparisons",
        "_early",
        "_ended_ms",
        "_name",
        "_notices",
        "_replica",
        "_seen",
        "_tree",
        "comparisons",
        "differences",
        "last_ms",
        "rounds",
    )

    def __init__(self, name: str, replica: Replica, notices: list[Notice]) -> None:
        self.rounds = 0
        self.comparisons = 0
        self.differences = 0
        self.last_ms = 0
        self._name = name
        self._replica = replica
        self._notices = notices
        self._tree: HashTree | None = None
        self._comparisons: dict[int, Comparison] = {}
        self._early: dict[int, tuple[str, wire.Audit]] = {}
        self._asked = False
        self._ended_ms = NEVER_MS
        self._seen = VersionVector()

    # Time

    def tick(self, now_ms: int, limits: Limits, peers: dict[int, int], progress: ProgressTable) -> None:
        """`peers`: the regions with an open link, and their slots."""
        self._ended_ms = min(self._ended_ms, now_ms)
        for region in [region for region in self._comparisons if region not in peers]:
            self.leave(region)
        if self._tree is not None and (self._tree.vector != self._replica.vector or not limits.audit_interval_ms):
            self._end(now_ms)
        if self._tree is None and limits.audit_interval_ms:
            self._begin(now_ms, limits.audit_interval_ms, peers, progress)
        tree = self._tree
        if tree is None:
            return
        if tree.step(limits.audit_entries_max):
            self.rounds += 1
            self.last_ms = self._ended_ms = now_ms
        if tree.done:
            for region in peers:
                self._tell(tree, region, WHOLE, "")
            self._hear_early(peers)

    def _begin(self, now_ms: int, interval_ms: int, peers: dict[int, int], progress: ProgressTable) -> None:
        """Once nothing moved since the last tick."""
        vector = self._replica.vector
        if vector != self._seen:
            self._seen = vector.copy()
            self._asked = False
            return
        due = now_ms - self._ended_ms >= interval_ms
        if self._asked or (due and any(progress.applied_of(slot) == vector for slot in peers.values())):
            self._asked = False
            self._tree = HashTree(self._replica)

    def _end(self, now_ms: int) -> None:
        """One that was not finished is not tried again at once either."""
        self._tree = None
        self._ended_ms = now_ms
        self._early.clear()
        for region in list(self._comparisons):
            self.leave(region)

    def leave(self, region: int) -> None:
        """What was on its way to this peer may be lost: over the next link all is told again."""
        comparison = self._comparisons.pop(region, None)
        self._early.pop(region, None)
        if comparison is not None and comparison.differs and not comparison.reported:
            text = f"region {self._name} and region {region} held different state at the same vector"
            self._notices.append((f"{text}; where, was not found before the vector moved on or the link closed", None))

    # Said

    def _tell(self, tree: HashTree, region: int, scope: Scope, key: str) -> None:
        """Once."""
        comparison = self._comparisons.get(region)
        if comparison is None:
            comparison = self._comparisons[region] = Comparison()
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

    def due(self, region: int) -> wire.Audit | None:
        """What to tell this peer now."""
        comparison = self._comparisons.get(region)
        if comparison is None or not comparison.due or self._standing() is None:
            return None
        return comparison.due.popleft()

    def _standing(self) -> HashTree | None:
        """The tree, if it is finished and means something."""
        tree = self._tree
        return tree if tree is not None and tree.done and tree.vector == self._replica.vector else None

    # Heard

    def hear(self, region: int, name: str, heard: wire.Audit) -> None:
        if len(heard.labels) != len(heard.sums):
            raise WireError(f"{len(heard.sums)} sums of {len(heard.labels)} labels")
        if to_vector(heard.vector) != self._replica.vector:
            return
        tree = self._standing()
        if tree is not None:
            self._compare(tree, region, name, heard)
        elif not heard.scope:
            self._asked = True
            self._early[region] = (name, heard)

    def _hear_early(self, peers: dict[int, int]) -> None:
        """What was told before the own tree was finished."""
        early = sorted(self._early.items())
        self._early.clear()
        for region, (name, heard) in early:
            if region in peers:
                self.hear(region, name, heard)

    def _compare(self, tree: HashTree, region: int, name: str, heard: wire.Audit) -> None:
        scope = tuple(heard.scope)
        own = tree.rows(scope)
        if own is None:
            return
        theirs = dict(zip(heard.labels, heard.sums, strict=True))
        labels = differing(own, theirs)
        self._tell(tree, region, scope, heard.key[:NAME_CHARACTERS_MAX])
        comparison = self._comparisons[region]
        if scope == WHOLE and not comparison.compared:
            comparison.compared = True
            self.comparisons += 1
        if labels and not comparison.differs:
            comparison.differs = True
            self.differences += 1
        key = self._shown_key(tree, scope) or heard.key[:NAME_CHARACTERS_MAX]
        if len(scope) == PORTION_DEPTH and not (own and theirs):
            found = [f"all of it is in region {self._name if own else name} only"] if labels else []
        else:
            for inner in narrower(scope, labels):
                self._tell(tree, region, inner, self._shown_key(tree, inner) or key)
            found = [self._shown(label, own, theirs, name) for label in labels if not leads_on(scope, label)]
        if found and scope not in comparison.reported and len(comparison.reported) < SCOPES_MAX:
            comparison.reported.add(scope)
            self._report(name, place(scope, key), found)

    def _shown_key(self, tree: HashTree, scope: Scope) -> str:
        """The key that the scope is in, if it is here."""
        key = tree.key_of(scope) if len(scope) >= PORTION_DEPTH else None
        if key is None:
            return ""
        text = f"{key[1].decode('utf-8', 'backslashreplace')[:NAME_CHARACTERS_MAX]!r}"
        return text if key[0] == 0 else f"{text} of database {key[0]}"

    def _shown(self, label: bytes, own: portions.Rows, theirs: portions.Rows, name: str) -> str:
        text = label.decode("utf-8", "backslashreplace")[:NAME_CHARACTERS_MAX]
        if label in own and label in theirs:
            return f"{text} differs"
        return f"{text} is in region {self._name if label in own else name} only"

    def _report(self, name: str, where: str, found: list[str]) -> None:
        more = f" and {len(found) - SHOWN_MAX} more" if len(found) > SHOWN_MAX else ""
        text = ", ".join(found[:SHOWN_MAX]) + more
        self._notices.append(
            (f"region {self._name} and region {name} hold different state at the same vector: {where}: {text}", None)
        )

    def check(self) -> None:
        if self._tree is not None:
            self._tree.check()
        for comparison in self._comparisons.values():
            assert len(comparison.due) <= len(comparison.told) <= SCOPES_MAX, "more is due than was to be told"
            assert comparison.differs or not comparison.reported, "a report without a difference"


def place(scope: Scope, key: str) -> str:
    """Where that is, for people."""
    if scope and scope[0] == MEMBERS:
        return "table of members"
    if len(scope) <= KEY_DEPTH:
        return "keys"
    words = [f"key {key}"]
    if len(scope) > PORTION_DEPTH:
        words.append(scope[PORTION_DEPTH].decode("utf-8", "backslashreplace")[:NAME_CHARACTERS_MAX])
    return ", ".join(words)
