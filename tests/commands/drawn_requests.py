"""Requests of one stream with two groups, drawn all together, for hypothesis: what fails is shrunk.

`@3` stands for the ID that was added fourth from last, and `~` for how many IDs of XCLAIM follow, which is not sent.
"""

from __future__ import annotations

from hypothesis import strategies as st

Request = list[str]

MANY = "~"
IDS = st.sampled_from([f"@{number}" for number in range(6)] + ["1-1"])
SEVERAL = st.lists(IDS, min_size=1, max_size=3)
GROUPS, CONSUMERS = st.sampled_from("gh"), st.sampled_from("abc")
STRATEGIES = st.sampled_from([[], ["KEEPREF"], ["DELREF"], ["ACKED"]])
BOUNDS = st.one_of(
    st.integers(0, 5).map(lambda number: ["MAXLEN", str(number)]), IDS.map(lambda entry_id: ["MINID", entry_id])
)
NOTHING: st.SearchStrategy[Request] = st.just([])
COUNTS = st.integers(1, 4).map(str)


def joined(*parts: st.SearchStrategy[Request] | st.SearchStrategy[str] | str) -> st.SearchStrategy[Request]:
    """The words of all parts, one behind the other."""
    drawn = [st.just(part) if isinstance(part, str) else part for part in parts]

    def flat(words: tuple[object, ...]) -> Request:
        return [text for word in words for text in (word if isinstance(word, list) else [str(word)])]

    return st.tuples(*drawn).map(flat)


def maybe(*words: str) -> st.SearchStrategy[Request]:
    return st.sampled_from([[], [], list(words)])


NAMED = SEVERAL.map(lambda ids: ["IDS", str(len(ids)), *ids])
CLAIMED = SEVERAL.map(lambda ids: [MANY, str(len(ids)), *ids])
FIELDS = st.sampled_from([["f", "v"], ["f", "w"], ["f", "v", "g", "w"], ["g", "w", "f", "v"]])


def common(idle: st.SearchStrategy[str], new_id: st.SearchStrategy[str]) -> list[st.SearchStrategy[Request]]:
    """What Redis 8.2 has too."""
    trimmed = st.one_of(NOTHING, NOTHING, joined("MAXLEN", st.sampled_from("24"), STRATEGIES))
    return [
        joined("XADD", "s", trimmed, new_id, "f", "v"),
        joined("XADD", "s", new_id, "f", "v"),
        joined("XDEL", "s", SEVERAL),
        joined("XDELEX", "s", STRATEGIES, NAMED),
        joined("XACKDEL", "s", GROUPS, STRATEGIES, NAMED),
        joined("XTRIM", "s", BOUNDS, STRATEGIES),
        joined("XREADGROUP", "GROUP", GROUPS, CONSUMERS, "COUNT", COUNTS, maybe("NOACK"), "STREAMS", "s", ">"),
        joined("XREADGROUP", "GROUP", GROUPS, CONSUMERS, "COUNT", COUNTS, "STREAMS", "s", st.sampled_from(["0", "@2"])),
        joined("XACK", "s", GROUPS, SEVERAL),
        joined(
            joined("XCLAIM", "s", GROUPS, CONSUMERS, idle, CLAIMED),
            maybe("FORCE"),
            maybe("JUSTID"),
            maybe("RETRYCOUNT", "7"),
            st.one_of(NOTHING, joined("LASTID", st.one_of(IDS, st.sampled_from(["12-1", "14-0"])))),
        ),
        joined("XAUTOCLAIM", "s", GROUPS, CONSUMERS, idle, IDS, "COUNT", COUNTS, maybe("JUSTID")),
        joined("XGROUP", "SETID", "s", GROUPS, st.sampled_from(["0", "$", "@1", "@4"])),
        joined("XGROUP", "DELCONSUMER", "s", GROUPS, CONSUMERS),
    ]


def newest(idle: st.SearchStrategy[str]) -> list[st.SearchStrategy[Request]]:
    """What 8.4 to 8.8 brought."""
    producer, name = st.sampled_from("pq"), st.sampled_from("123")
    reading = ("XREADGROUP", "GROUP", GROUPS, CONSUMERS, "COUNT", COUNTS)
    return [
        joined("XADD", "s", "IDMP", producer, name, "*", FIELDS),
        joined("XADD", "s", "IDMPAUTO", producer, "*", FIELDS),
        joined("XCFGSET", "s", "IDMP-DURATION", st.sampled_from(["1", "100"]), maybe("IDMP-MAXSIZE", "2")),
        joined("XIDMPRECORD", "s", st.sampled_from(["p", "q", ""]), name, st.one_of(IDS, st.just("1-"))),
        joined(*reading, "CLAIM", idle, maybe("NOACK"), "STREAMS", "s", ">"),
        joined(*reading, "CLAIM", idle, "STREAMS", "s", ">"),
        joined(
            joined("XNACK", "s", GROUPS, st.sampled_from(["SILENT", "FAIL", "FATAL"]), NAMED),
            maybe("RETRYCOUNT", "3"),
            maybe("FORCE"),
        ),
        # Here, because a server goes on counting a destroyed group for ACKED.
        joined("XGROUP", "DESTROY", "s", "h"),
        joined("XGROUP", "CREATE", "s", GROUPS, st.sampled_from(["0", "$"])),
        joined("WAIT", st.sampled_from(["1", "1", "7", "400", "1300"])),
    ]


def with_ids(words: Request, added: list[str]) -> Request:
    """The request with the IDs that its words stand for; `added` are all that were ever added."""

    def meant(word: str) -> str:
        if not word.startswith("@"):
            return word
        return added[-1 - int(word[1:]) % len(added)] if added else "1-1"

    return [meant(word) for word in words]


def sent(words: Request) -> Request:
    """As a client sends it."""
    if MANY not in words:
        return words
    at = words.index(MANY)
    return [*words[:at], *words[at + 2 :]]
