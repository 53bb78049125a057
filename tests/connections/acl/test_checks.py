"""Keys are found where the command takes them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.read_options import parse_read
from crdtstream.commands.table import TABLE
from crdtstream.connections.context import CommandError

WORDS = b"STREAMS streams GROUP BLOCK COUNT NOACK CLAIM MAXCOUNT MAXSIZE 1 5 g k > 0".split()


@given(
    words=st.lists(st.sampled_from(WORDS), max_size=12),
    beginning=st.sampled_from([[], [b"GROUP", b"STREAMS", b"c"], [b"COUNT", b"1", b"GROUP", b"g", b"STREAMS"]]),
    name=st.sampled_from([b"XREAD", b"XREADGROUP"]),
)
def test_a_read_takes_no_key_that_is_not_checked(words: list[bytes], beginning: list[bytes], name: bytes) -> None:
    """A group or consumer that is named like the keyword must not hide the keys."""
    argv = [name, *beginning, *words]
    command = TABLE[name]
    found = [argv[at] for at in command.keys.positions(argv)]
    try:
        options = parse_read(argv, 0, command.name)
    except CommandError:
        return
    assert found == options.keys


def test_positions_lie_within_the_request() -> None:
    for row in CATALOGUE:
        argv = [b"x"] * abs(row.arity)
        for at in row.keys.positions(argv):
            assert 0 < at < len(argv), row.name
