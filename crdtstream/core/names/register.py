"""The register of named adds of one stream: `(producer, name) -> adds`, until no concurrent one can arrive any more.

An add is concurrent with another one under its name if neither had seen the other. Of concurrent adds one survives:

    in the order of (ID, origin), an add is **lost** to the first survivor before it that is concurrent with it;
    an add that is lost to none survives

Adds that saw each other never conflict: a producer that reuses a name after the duration means to add a second entry.
An add that was seen by a later one stays in the register, because a third one that saw neither loses to it. What is
lost follows from dots and contexts alone, never from what lives or was delivered; and as IDs ascend along causality,
an add that is lost among some stays lost among more. So each region removes the same ones, whenever it learns of them.

An add is kept until all adds of its name are causally stable: then each concurrent one has arrived here, and whatever
a member adds later has seen all of them. It outlives its entry and a DEL. It is not part of any digest, because regions
forget it at different times.

`acknowledged` is local: the groups that acknowledged the entry while it lived here, each with the creates and resets
under which they did (core/names/acknowledging.py).

Reference: `XADD ... IDMP` of Redis 8.6; multi-value registers (Shapiro et al., 2011).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.core.values.causality import Dot, VersionVector
from crdtstream.core.values.entry_id import EntryId

# The producer, and its name for the entry.
AddName = tuple[bytes, bytes]
# Creates of a group, each with the reset that counted under it.
NamedCreates = list[tuple[Dot, tuple[int, int]]]

_NO_GROUPS: Final[dict[bytes, NamedCreates]] = {}


class NamedAdd:
    """One add under a name; `at_ms` is the clock of its region, `seen` the highest counters that it had seen of origins
    with adds under this name, `is_lost` whether this region has recorded that it lost.
    """

    __slots__ = ("acknowledged", "at_ms", "dot", "entry_id", "is_lost", "seen")

    def __init__(self, dot: Dot, entry_id: EntryId, at_ms: int, seen: list[Dot]) -> None:
        self.dot = dot
        self.entry_id = entry_id
        self.at_ms = at_ms
        self.seen = seen
        self.acknowledged = _NO_GROUPS
        self.is_lost = False

    def order(self) -> tuple[EntryId, int]:
        return self.entry_id, self.dot[0]

    def saw(self, dot: Dot) -> bool:
        for origin, counter in self.seen:
            if origin == dot[0]:
                return counter >= dot[1]
        return False

    def is_concurrent(self, other: NamedAdd) -> bool:
        return not self.saw(other.dot) and not other.saw(self.dot)

    def acknowledge(self, group: bytes, creates: NamedCreates) -> None:
        known = [one for one in self.acknowledged.get(group, []) if one not in creates]
        self.acknowledged = {**self.acknowledged, group: known + creates}


LostAdd = tuple[NamedAdd, NamedAdd]


def losses_of(adds: list[NamedAdd]) -> list[LostAdd]:
    """The adds that are lost, each with the survivor; `adds` ascend by ID and origin."""
    alive: list[NamedAdd] = []
    lost: list[LostAdd] = []
    for add in adds:
        rival: NamedAdd | None = None
        for one in alive:
            if one.is_concurrent(add):
                rival = one
                break
        if rival is None:
            alive.append(add)
        else:
            lost.append((add, rival))
    return lost


def is_stable(adds: list[NamedAdd], stable: VersionVector) -> bool:
    for add in adds:  # noqa: SIM110 (a generator takes three times as long)
        if not stable.contains(add.dot[0], add.dot[1]):
            return False
    return True


class NameRegister:
    """The named adds of one stream, in the order of the last add of each name; `met` are the names under which
    concurrent adds met, until what is lost of them was removed here.
    """

    __slots__ = ("_adds", "_of_id", "met")

    def __init__(self) -> None:
        self._adds: dict[AddName, list[NamedAdd]] = {}
        self._of_id: dict[EntryId, list[AddName]] = {}
        self.met: dict[AddName, None] = {}

    def __len__(self) -> int:
        return len(self._adds)

    def adds_of(self, name: AddName) -> list[NamedAdd]:
        return self._adds.get(name, [])

    def items(self) -> list[tuple[AddName, list[NamedAdd]]]:
        return list(self._adds.items())

    def record(self, name: AddName, dot: Dot, entry_id: EntryId, at_ms: int, context: VersionVector) -> None:
        """Record an add that had seen what this context covers."""
        known = self._adds.get(name, [])
        origins = sorted({one.dot[0] for one in known}) if known else []
        seen = [(origin, context.get(origin)) for origin in origins if context.get(origin)]
        self.put(name, NamedAdd(dot, entry_id, at_ms, seen))

    def put(self, name: AddName, add: NamedAdd) -> None:
        """Keep an add; one that is known already is left as it is."""
        adds = self._adds.pop(name, [])
        self._adds[name] = adds
        for one in adds:
            if one.dot == add.dot:
                return
            if one.is_concurrent(add):
                self.met[name] = None
        adds.append(add)
        if len(adds) > 1:
            adds.sort(key=NamedAdd.order)
        self._of_id.setdefault(add.entry_id, []).append(name)

    # What is lost

    def survivor(self, name: AddName) -> NamedAdd:
        """The last add under a known name that is not lost."""
        adds = self._adds[name]
        lost = {loss.dot for loss, _ in losses_of(adds)} if len(adds) > 1 else set()
        return [add for add in adds if add.dot not in lost][-1]

    def losses(self, name: AddName) -> list[LostAdd]:
        adds = self.adds_of(name)
        return losses_of(adds) if len(adds) > 1 else []

    def survivors_of(self, entry_id: EntryId) -> list[NamedAdd]:
        """The adds to which adds with this ID are lost; one, unless regions chose one ID for several adds."""
        names = self._of_id.get(entry_id, [])
        return [survivor for name in names for lost, survivor in self.losses(name) if lost.entry_id == entry_id]

    def adds_with(self, origin: int, entry_id: EntryId) -> list[NamedAdd]:
        """The adds of this entry."""
        names = self._of_id.get(entry_id, [])
        return [add for name in names for add in self._adds[name] if add.entry_id == entry_id and add.dot[0] == origin]

    def names_with(self, entry_id: EntryId) -> list[AddName]:
        """The names of the adds with this ID."""
        return self._of_id.get(entry_id, [])

    def names_of(self, origin: int, entry_id: EntryId) -> list[AddName]:
        """The names of this entry."""
        names = self._of_id.get(entry_id, [])
        return [
            name
            for name in names
            if [add for add in self._adds[name] if add.dot[0] == origin and add.entry_id == entry_id]
        ]

    # Forgetting

    def forget(self, stable: VersionVector, names_max: int, is_needed: Callable[[list[NamedAdd]], bool]) -> int:
        """Forget the names of which all adds are stable, in their order up to the first one that is not; visits at most
        `names_max`, and returns how many. Of those with lost adds `is_needed` says whether they stay a while.
        """
        visited = 0
        for name in list(self._adds) if len(self._adds) <= names_max else self._first(names_max):
            adds = self._adds[name]
            visited += 1
            if not is_stable(adds, stable):
                self._drop_witnesses(name, adds, stable)
                break
            if name in self.met or (len(adds) > 1 and is_needed(adds)):
                # Behind the others, so that these are not kept too.
                self._adds[name] = self._adds.pop(name)
            else:
                self.drop(name)
        return visited

    def _first(self, count: int) -> list[AddName]:
        names: list[AddName] = []
        for name in self._adds:
            names.append(name)
            if len(names) == count:
                break
        return names

    def _drop_witnesses(self, name: AddName, adds: list[NamedAdd], stable: VersionVector) -> None:
        """Drop the first stable adds that all others have seen: whatever comes has seen them too."""
        for count in range(len(adds) - 1, 0, -1):
            early, late = adds[:count], adds[count:]
            if is_stable(early, stable) and all(one.saw(add.dot) for one in late for add in early):
                for add in early:
                    self._unlist(name, add)
                self._adds[name] = late
                return

    def drop(self, name: AddName) -> None:
        for add in self._adds.pop(name):
            self._unlist(name, add)
        self.met.pop(name, None)

    def drop_oldest(self) -> None:
        self.drop(next(iter(self._adds)))

    def _unlist(self, name: AddName, add: NamedAdd) -> None:
        names = self._of_id[add.entry_id]
        names.remove(name)
        if not names:
            del self._of_id[add.entry_id]

    def check(self) -> None:
        for name, adds in self._adds.items():
            assert adds, f"{name} has no adds"
            assert adds == sorted(adds, key=NamedAdd.order), f"the adds under {name} are out of order"
            assert len({add.dot for add in adds}) == len(adds), f"an add under {name} is there twice"
            assert all(name in self._of_id[add.entry_id] for add in adds), f"an ID of {name} is not listed"
        listed = sum([len(names) for names in self._of_id.values()])
        assert listed == sum([len(adds) for adds in self._adds.values()]), "an ID is listed for a name that lacks it"
        assert all(name in self._adds for name in self.met), "a name met that is not kept"
