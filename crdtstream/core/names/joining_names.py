"""Joining the named adds of two states of a stream (core/joining.py).

The register is joined add by add, as everything that is named by a dot: what one side lacks is new to it if its own
vector does not cover the dot. If it does, that side has forgotten the add, because it was stable, or beyond a bound.
Records of producers are united: of two under one name the one that was made later counts.
"""

from __future__ import annotations

from crdtstream.core.names.producers import Producers
from crdtstream.core.names.register import AddName, NamedAdd, NameRegister
from crdtstream.core.streams.stream import Stream
from crdtstream.core.values.causality import VersionVector

_NOTHING = Producers()


def join_names(mine: Stream, vector: VersionVector, theirs: Stream, their_vector: VersionVector) -> None:
    if mine.producers is None and theirs.producers is None:
        return
    own, other = mine.producers or Producers(), theirs.producers or _NOTHING
    own.is_shared = own.is_shared or other.is_shared
    known, foreign = own.register or NameRegister(), other.register or NameRegister()
    joined = joined_registers(known, vector, foreign, their_vector)
    own.register = joined if len(joined) else None
    for producer, name, entry_id, at_ms in other.rows():
        if at_ms > own.made_ms(producer, name):
            own.record(producer, name, entry_id, at_ms)
    for (producer, name), adds in joined.items():
        if producer and len(adds) > 1 and own.made_ms(producer, name) >= 0:
            own.correct(producer, name, joined.survivor((producer, name)).entry_id)
    mine.producers = own


def joined_registers(
    mine: NameRegister, vector: VersionVector, theirs: NameRegister, their_vector: VersionVector
) -> NameRegister:
    joined = NameRegister()
    for name, adds in mine.items():
        put_all(joined, name, kept(adds, theirs.adds_of(name), their_vector))
    for name, adds in theirs.items():
        put_all(joined, name, [add for add in adds if not vector.contains(add.dot[0], add.dot[1])])
    return joined


def kept(mine: list[NamedAdd], theirs: list[NamedAdd], their_vector: VersionVector) -> list[NamedAdd]:
    both = {add.dot for add in theirs}
    return [add for add in mine if add.dot in both or not their_vector.contains(add.dot[0], add.dot[1])]


def put_all(register: NameRegister, name: AddName, adds: list[NamedAdd]) -> None:
    for add in adds:
        register.put(name, add)
