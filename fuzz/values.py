"""Arguments that programs trip over, and those that the prepared region knows."""

from __future__ import annotations

from hypothesis import strategies as st

KEYS = (*(b"s",) * 10, b"t", b"t", b"empty", b"empty", b"none", b"u", b"")
GROUPS = (*(b"g",) * 8, b"h", b"h", b"none")
CONSUMERS = (b"c", b"d", b"none")
IDS = (b"0", b"1-1", b"5-1", b"5-2", b"6-1", b"8-1", b"12-1", b"7-2", b"19-2", b"100-1", b"7", b"7-*")
BOUNDS = (b"-", b"+", b"0", b"5", b"(5-1", b"8-2", b"(12-1", b"100")
NUMBERS = (b"0", b"1", b"2", b"2", b"5", b"10", b"1000", b"-1")
NUMERIC = ("count", "time", "ms", "seconds", "numkeys", "port", "index")
EDGES = tuple(
    str(number).encode()
    for edge in (2**7, 2**8, 2**15, 2**16, 2**31, 2**32, 2**53, 2**63, 2**64, 2**65, 10**30)
    for number in (edge - 1, edge, edge + 1, -edge, -edge - 1)
)
ODD = (
    b"",
    b" ",
    b"\0",
    b"\r\n",
    b"-ERR\r\n",
    b"\xff\xfe",
    b"\xed\xa0\x80",
    "ключ".encode(),
    b"nan",
    b"-nan",
    b"inf",
    b"-inf",
    b"1e3",
    b"1.5",
    b"0x10",
    b"010",
    b"+1",
    b" 1",
    b"1 ",
    b"--1",
    b"1-",
    b"-1-1",
    b"1--1",
    b"1-1-1",
    b"(",
    b"((1",
    b"(-",
    b"(+",
    b"*-1",
    b"%d%s%n",
    b"{}",
    b"[a-",
    b"\\",
    b"*" * 40,
    b"9" * 400,
    b"18446744073709551615-18446744073709551615",
    b"18446744073709551615-*",
    b"18446744073709551616-0",
    b"v" * 20_000,
)
RANDOM_BYTES_MAX = 24


# Values that suit no argument.
HOSTILE = st.one_of(
    st.sampled_from(ODD),
    st.sampled_from(EDGES),
    st.tuples(st.sampled_from(EDGES), st.sampled_from(EDGES)).map(b"-".join),
    st.binary(max_size=RANDOM_BYTES_MAX - 1),
)


def suiting(command: str, name: str, kind: str) -> tuple[bytes, ...]:
    """Values that an argument may well have."""
    if (command, name) in BY_COMMAND:
        return BY_COMMAND[command, name]
    if kind in BY_KIND:
        return BY_KIND[kind]
    if name in NUMERIC or name.endswith(("-time", "-ms")):
        return NUMBERS
    return next((values for part, values in BY_NAME.items() if part in name), ANYTHING)


BY_COMMAND = {
    ("xreadgroup", "id"): (b">", b">", b">", b"0", b"5-1"),
    ("xread", "id"): (b"0", b"$", b"+", b"5-1"),
    ("xautoclaim", "start"): (b"0", b"0-0", b"-", b"6-1"),
    ("xadd", "id"): (b"13-1", b"20-1", b"100-1", b"200-*", b"300", b"5-1", b"18446744073709551615-1"),
    ("xsetid", "last-id"): (b"12-1", b"20-1", b"100-1", b"300", b"5-1"),
    ("xadd", "threshold"): (b"0", b"3", b"8", b"100", b"7-1"),
    ("xtrim", "threshold"): (b"0", b"3", b"8", b"100", b"7-1"),
    ("select", "index"): (b"0", b"0", b"0", b"1"),
}
BY_KIND = {
    "key": KEYS,
    "integer": NUMBERS,
    "unix-time": NUMBERS,
    "double": NUMBERS,
    "pattern": (b"*", b"s*", b"[a-z]", b"?"),
}
BY_NAME = {"group": GROUPS, "consumer": CONSUMERS, "start": BOUNDS, "end": BOUNDS, "id": IDS, "threshold": IDS}
ANYTHING = (b"v", b"f", b"5", *KEYS, *GROUPS, *IDS)
