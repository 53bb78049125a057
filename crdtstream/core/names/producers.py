"""Idempotent adds: which entry a producer added under which idempotent ID, as this region knows it.

A named add is an effect, so every region records it: a producer that repeats an add in another region gets the first
entry's ID there. What XIDMPRECORD, RESTORE and COPY record is a local fact, and so is an add while a region of release
0.1.0 belongs to the cluster, which could not read the effect. How long, and how many, records are kept is local too.

Records of a producer are kept in the order in which they were made, and producers in the order of their last record.
What has expired leaves from the fronts when something is recorded; until then readers pass over it. A record decides
only how a repetition is answered; which of two concurrent adds stays is decided by the register (names/register.py),
which keeps less for longer. A DEL ends the records, as in Redis, and leaves the register.

Reference: `XADD ... IDMP` of Redis 8.6.
"""

from __future__ import annotations

from crdtstream.core.names.register import NameRegister
from crdtstream.core.values.entry_id import EntryId

ProducerRecord = tuple[EntryId, int]


class Producers:
    """The records of one stream. `duration_s` and `entries_max` are those that XCFGSET set, None if it did not; `added`
    counts the records ever made, and `duplicates` the adds that were repetitions. `register` is None while no add can
    meet a concurrent one of its name; with `is_shared` the records are part of a state transfer.
    """

    __slots__ = ("_of_producer", "added", "duplicates", "duration_s", "entries_max", "is_shared", "register")

    def __init__(self) -> None:
        self._of_producer: dict[bytes, dict[bytes, ProducerRecord]] = {}
        self.duration_s: int | None = None
        self.entries_max: int | None = None
        self.added = 0
        self.duplicates = 0
        self.register: NameRegister | None = None
        self.is_shared = False

    def find(self, producer: bytes, name: bytes, since_ms: int) -> EntryId | None:
        """The entry added under this name, if it was recorded after `since_ms`."""
        found = self._of_producer.get(producer, {}).get(name)
        return None if found is None or found[1] <= since_ms else found[0]

    def record(self, producer: bytes, name: bytes, entry_id: EntryId, now_ms: int) -> None:
        records = self._of_producer.pop(producer, {})
        records.pop(name, None)
        records[name] = (entry_id, now_ms)
        self._of_producer[producer] = records

    def made_ms(self, producer: bytes, name: bytes) -> int:
        """When the record of this name was made, expired or not; -1 if there is none."""
        found = self._of_producer.get(producer, {}).get(name)
        return -1 if found is None else found[1]

    def correct(self, producer: bytes, name: bytes, entry_id: EntryId) -> None:
        """Answer with this ID from now on: what was recorded is lost to it."""
        records = self._of_producer[producer]
        records[name] = (entry_id, records[name][1])

    def forget(self, producer: bytes, since_ms: int, entries_max: int) -> None:
        """Drop what was recorded up to `since_ms`, and this producer's oldest records beyond `entries_max`."""
        records = self._of_producer.get(producer, {})
        for name in list(records):
            if len(records) <= entries_max and records[name][1] > since_ms:
                break
            del records[name]
        if not records:
            self._of_producer.pop(producer, None)
        while self._of_producer:
            oldest = next(iter(self._of_producer))
            newest = next(reversed(self._of_producer[oldest].values()), None)
            if newest is not None and newest[1] > since_ms:
                break
            del self._of_producer[oldest]

    def share(self) -> NameRegister:
        """The register; from now on the records are those of all regions."""
        self.is_shared = True
        if self.register is None:
            self.register = NameRegister()
        return self.register

    def drop(self) -> Producers | None:
        """What is left once the key is deleted: the register, because a concurrent add may still arrive."""
        if self.register is None:
            return None
        left = Producers()
        left.register, left.is_shared = self.register, self.is_shared
        return left

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
        if self.register is not None:
            self.register.check()
        assert all(self._of_producer.values()), "a producer without records is kept"
