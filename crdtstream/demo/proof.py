"""Proof of convergence: the same command in every region, and whether all replies are byte-identical."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from crdtstream.demo.cluster import Cluster
from crdtstream.demo.story import brief_reply
from crdtstream.processes.clients import pairs
from crdtstream.scenarios.reply import ReplyError, Value, show

DIGEST_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Proof:
    """One command and its replies, by region."""

    question: tuple[str, ...]
    answers: dict[str, Value]

    @property
    def holds(self) -> bool:
        answers = list(self.answers.values())
        return all(answer == answers[0] for answer in answers)

    @property
    def complaint(self) -> str:
        answers = "; ".join(f"{name} {show(answer)}" for name, answer in self.answers.items())
        return f"{shlex.join(self.question)} is not the same in all regions: {answers}"

    @property
    def brief(self) -> str:
        """The common reply, shortened for display."""
        answer = next(iter(self.answers.values()))
        if answer is None or isinstance(answer, ReplyError):
            return "absent"
        if isinstance(answer, str):
            return brief_digest(answer)
        if self.question[0] == "XINFO":
            groups: Any = answer
            return "\n".join(brief_group(pairs(group)) for group in groups) or "no groups"
        return brief_reply(list(self.question), answer)


def prove(cluster: Cluster, *question: str) -> Proof:
    return Proof(question, {name: lasting(region.run(*question)) for name, region in cluster.regions.items()})


def lasting(answer: Value) -> Value:
    """The answer without the regions that a group awaits at the moment: it hears them again soon after a link opens."""
    if not isinstance(answer, list):
        return answer
    return [without_awaits(group) if isinstance(group, list) and "awaits" in group else group for group in answer]


def without_awaits(group: list[Value]) -> Value:
    at = group.index("awaits")
    return group[:at] + group[at + 2 :]


def prove_keys(cluster: Cluster, keys: Iterable[str]) -> dict[str, list[Proof]]:
    """Return proofs for each key: its entries, groups and digest; finally one for the digest of each shard."""
    proofs = {
        key: [
            prove(cluster, "XRANGE", key, "-", "+"),
            prove(cluster, "XINFO", "GROUPS", key),
            prove(cluster, "CRDT.DIGEST", key),
        ]
        for key in keys
    }
    return proofs | {all_of(cluster, shard): [prove_shard(cluster, shard)] for shard in range(cluster.shards)}


def all_of(cluster: Cluster, shard: int) -> str:
    return "(all)" if cluster.shards == 1 else f"(all of shard {shard})"


def prove_shard(cluster: Cluster, shard: int) -> Proof:
    question = ("CRDT.DIGEST",)
    return Proof(question, {name: region.run_in(shard, *question) for name, region in cluster.regions.items()})


def brief_digest(digest: str) -> str:
    return f"{digest[:DIGEST_SHOWN]}..."


def brief_group(group: dict[str, Any]) -> str:
    consumers = group["consumers"]
    return (
        f"{group['name']}: {consumers} consumer{'' if consumers == 1 else 's'}, {group['pending']} pending,"
        f" last {group['last-delivered-id']}, lag {group['lag']}"
    )
