"""The formats of batches that later additions need: a region that reads only earlier ones cannot be told of these."""

from __future__ import annotations

from typing import Final

from crdtstream.core.groups.create import resets_of
from crdtstream.core.streams.stream import Stream

# The first format that can say what properties are, and the name of an add.
PROPERTIES_FORMAT: Final = 4
NAMES_FORMAT: Final = 4


def needs_format(stream: Stream) -> bool:
    """True if only these formats can say what this stream has."""
    if stream.properties is not None or stream.producers is not None:
        return True
    return any(group.properties or resets_of(group.creates) for group in stream.groups.values())
