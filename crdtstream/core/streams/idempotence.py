"""Idempotent adds: which entry a producer added under which idempotent ID, in this region.

Local: recorded as local facts, kept in checkpoints, and never sent. A producer that repeats an add in another region
adds another entry there.

Records of a producer are kept in the order in which they were made, and producers in the order of their last record.
What has expired leaves from the fronts when something is recorded; until then readers pass over it.

Reference: `XADD ... IDMP` of Redis 8.6.
"""

from __future__ import annotations

from crdtstream.core.values.entry_id import EntryId

ProducerRecord = tuple[EntryId, int]


class Producers:
    """The records of one stream. `duration_s` and `entries_max` are those that XCFGSET set, None if it did not; `added`
    counts the records ever made, and `duplicates` the adds that were repetitions.
    """

    __slots__ = ("_of_producer", "added", "duplicates", "duration_s", "entries_max")

    def __init__(self) -> None:
        self._of_producer: dict[bytes, dict[bytes, ProducerRecord]] = {}
        self.duration_s: int | None = None
        self.entries_max: int | None = None
        self.added = 0
        self.duplicates = 0

    def find(self, producer: bytes, name: bytes, since_ms: int) -> EntryId | None:
        """The entry added under this name, if it was recorded after `since_ms`."""
        found = self._of_producer.get(producer, {}).get(name)
        return None if found is None or found[1] <= since_ms else found[0]

    def record(self, producer: bytes, name: bytes, entry_id: EntryId, now_ms: int) -> None:
        records = self._of_producer.pop(producer, {})
        records.pop(name, None)
        records[name] = (entry_id, now_ms)
        self._of_producer[producer] = records

    def forget(self, producer: bytes, since_ms: int, entries_max: int) -> None:
        """Drop what was recorded up to `since_ms`, and this producer's oldest records beyond `entries_max`."""
        records = self._of_producer[producer]
        for name in list(records):
            if len(records) <= entries_max and records[name][1] > since_ms:
                break
            del records[name]
        for other in list(self._of_producer):
            newest = next(reversed(self._of_producer[other].values()), None)
            if newest is not None and newest[1] > since_ms:
                break
            del self._of_producer[other]

    def clear(self) -> None:
        self._of_producer.clear()

    def tracked(self, since_ms: int) -> tuple[int, int]:
        """How many producers have records made after `since_ms`, and how many such records there are."""
        counts = [
            sum([1 for _, at_ms in records.values() if at_ms > since_ms]) for records in self._of_producer.values()
        ]
        return sum([1 for count in counts if count]), sum(counts)

    def rows(self) -> list[tuple[bytes, bytes, EntryId, int]]:
        """All records, in an order in which they can be made again."""
        return [
            (producer, name, entry_id, at_ms)
            for producer, records in self._of_producer.items()
            for name, (entry_id, at_ms) in records.items()
        ]

    def check(self) -> None:
        assert all(self._of_producer.values()), "a producer without records is kept"
