"""Groups that lag, as a region replied. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from crdtstream.observing.rows import fields_of_row

KEPT = 5
GroupName = tuple[bytes, bytes]


@dataclass(frozen=True, slots=True)
class LaggingGroup:
    """A group in one region, and whether it lags in others, too; `oldest_id` is the first entry that it has yet to
    deliver there, `delivered` what it has delivered, by origin.
    """

    region: str
    key: bytes
    group: bytes
    lag: int
    pending: int
    oldest_id: str
    delivered: str = ""
    in_others: bool = False

    @property
    def name(self) -> GroupName:
        return self.key, self.group

    @property
    def place(self) -> tuple[str, bytes, bytes]:
        return self.region, self.key, self.group


def most_lagging(found: list[LaggingGroup]) -> list[LaggingGroup]:
    """Those with the largest lags, each once; those that do not lag are left out."""
    newest = {group.place: group for group in found}
    late = [group for group in newest.values() if group.lag]
    return sorted(late, key=lambda group: (-group.lag, group.place))[:KEPT]


def each_where_it_lags_most(found: list[LaggingGroup]) -> list[LaggingGroup]:
    """Each group once, those with the largest lags first."""
    kept: dict[GroupName, LaggingGroup] = {}
    several: set[GroupName] = set()
    for group in sorted(found, key=lambda group: (-group.lag, group.place)):
        if group.name in kept and group.lag:
            several.add(group.name)
        kept.setdefault(group.name, group)
    return [replace(group, in_others=name in several) for name, group in kept.items()]


def looked_at(group: LaggingGroup, reply: list[object]) -> LaggingGroup:
    """The group as CRDT.GROUP shows it."""
    fields = fields_of_row(reply)
    coming = fields["next"]
    pending = sum(fields_of_row(row)["pending"] for row in fields["origins"])
    oldest = coming[0][0].decode() if coming else ""
    delivered = ",".join(fields_of_row(row)["delivered"].decode() for row in fields["origins"])
    return LaggingGroup(group.region, group.key, group.group, fields["lag"], pending, oldest, delivered)
