"""docs/states.md, from the tables of crdtstream/replication/values/states.py."""

from __future__ import annotations

from crdtstream.replication.values.states import DEMAND, LEAVE, MEMBERSHIP, SESSION, START_OVER, States

HEAD = """# States and events

Replication keeps what it does next as named states, and changes each state in one place. The tables have every event
that may happen in a state; any other event is a fault of the code and ends the region. This page is generated from
`crdtstream/replication/values/states.py`.
"""

PARTS: tuple[tuple[str, str, States], ...] = (
    (
        "A session",
        """\
One link with a peer (`replication/links/session.py`). A peer is served once its Hello has arrived, in `answering` and
`open`.
A peer that is refused receives the reason before the link is closed.""",
        SESSION,
    ),
    (
        "The region's own origin",
        """\
What the directory of this region was before, and whether its origin is [admitted](architecture.md#members)
(`replication/membership/admission_state.py`). Clients wait in `new`; `new` and `used` may found a cluster; only an
origin
that is `admitted` creates groups, sponsors others and forgets tombstones.""",
        MEMBERSHIP,
    ),
    (
        "The demand for the admission",
        """\
An origin that comes back does nothing for its admission until a client needs it (`admission_state.py`). `asked` takes
effect at the end of the turn; the demand is remembered, also by the next origin of the process.""",
        DEMAND,
    ),
    (
        "Starting over",
        """\
A region [replaces its state](recovery.md#cloned-memory) with that of another region, the source
(`replication/membership/start_over.py`). Clients wait in `levelling` and `fetching`; no batches are applied or sent in
`fetching`; `handing over` waits for the admission.""",
        START_OVER,
    ),
    (
        "Leaving",
        """\
A region [leaves the cluster](operations.md#removing-a-region) (`replication/membership/leaving.py`). Outside `staying`
it refuses writes of clients; in `ending` it asks a linked peer to end its membership; `left` ends the process.""",
        LEAVE,
    ),
)


def table_of(states: States) -> list[str]:
    rows = [f"| `{state}` | {event} | `{following}` |" for (state, event), following in states.items()]
    return ["| state | event | then |", "|---|---|---|", *rows]


def states_page() -> str:
    lines = [HEAD]
    for title, text, states in PARTS:
        lines += [f"## {title}", "", text, "", *table_of(states), ""]
    return "\n".join(lines)
