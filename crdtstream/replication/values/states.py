"""The states of a session, of a region's own origin and of starting over, and the events between them.

A table has a row for each event that may happen in a state; any other is a fault of this code, and `after` says so.
docs/states.md shows these tables and is made from them.
"""

from __future__ import annotations

from typing import Final

# (state, event) -> the state after it.
States = dict[tuple[str, str], str]

# A session (session.py), that is one link: whose Hello was exchanged, and how it ends.
LINKED: Final = "linked"
GREETING: Final = "greeting"
ANSWERING: Final = "answering"
OPEN: Final = "open"
REFUSING: Final = "refusing"
CLOSED: Final = "closed"

HELLO_SENT: Final = "its Hello is sent"
HELLO_HEARD: Final = "the peer's Hello arrives"
REFUSES: Final = "the region refuses the peer"
REFUSAL_SENT: Final = "the reason is sent"
CLOSES: Final = "the peer refuses or is silent, or the region closes the link"

SESSION: Final[States] = {
    (LINKED, HELLO_SENT): GREETING,
    (LINKED, HELLO_HEARD): ANSWERING,
    (LINKED, REFUSES): REFUSING,
    (LINKED, CLOSES): CLOSED,
    (GREETING, HELLO_HEARD): OPEN,
    (GREETING, REFUSES): REFUSING,
    (GREETING, CLOSES): CLOSED,
    (ANSWERING, HELLO_SENT): OPEN,
    (ANSWERING, REFUSES): REFUSING,
    (ANSWERING, CLOSES): CLOSED,
    (OPEN, REFUSES): REFUSING,
    (OPEN, CLOSES): CLOSED,
    (REFUSING, REFUSAL_SENT): CLOSED,
    (REFUSING, CLOSES): CLOSED,
}

# The own origin of a region (membership/membership.py): what its directory was before, and whether it is admitted.
UNBORN: Final = "unborn"
NEW: Final = "new"
USED: Final = "used"
RETURNED: Final = "returned"
ADMITTED: Final = "admitted"

STARTS_EMPTY: Final = "the process starts with a directory that is empty, or has only heard of a cluster"
STARTS_USED: Final = "the process starts with data, and has heard of no cluster"
STARTS_KNOWN: Final = (
    "the process starts with a directory that was in a cluster, or was written to and has heard of one"
)
IS_ADMITTED: Final = "it founds a cluster, or is admitted by a sponsor or by all"
LAPSES: Final = "its Join turns out void before it was used"
IS_REPLACED: Final = "another origin of this process replaces it"

MEMBERSHIP: Final[States] = {
    (UNBORN, STARTS_EMPTY): NEW,
    (UNBORN, STARTS_USED): USED,
    (UNBORN, STARTS_KNOWN): RETURNED,
    (NEW, IS_ADMITTED): ADMITTED,
    (NEW, IS_REPLACED): NEW,
    (USED, IS_ADMITTED): ADMITTED,
    (USED, IS_REPLACED): USED,
    (RETURNED, IS_ADMITTED): ADMITTED,
    (RETURNED, IS_REPLACED): RETURNED,
    (ADMITTED, LAPSES): RETURNED,
    (ADMITTED, IS_REPLACED): RETURNED,
}

# Whether a client waits for the admission (membership/membership.py).
UNASKED: Final = "unasked"
ASKED: Final = "asked"
REMEMBERED: Final = "remembered"

ASKS: Final = "a client needs the admission"
TURN_ENDS: Final = "the turn ends"

DEMAND: Final[States] = {
    (UNASKED, ASKS): ASKED,
    (ASKED, ASKS): ASKED,
    (ASKED, TURN_ENDS): REMEMBERED,
    (REMEMBERED, ASKS): ASKED,
}

# Replacing the own state by another region's (membership/start_over.py).
IDLE: Final = "idle"
LEVELLING: Final = "levelling"
FETCHING: Final = "fetching"
HANDING_OVER: Final = "handing over"

BEGINS: Final = "an operator names the source"
LEVELLED: Final = "the source holds what this region had, or the wait for that is over"
ENDS: Final = "the state is replaced, or the region gives up"
LEAVES_GROUPS: Final = "the same, and groups are left to hand over"
HANDED_OVER: Final = "the groups are handed over"

START_OVER: Final[States] = {
    (IDLE, BEGINS): LEVELLING,
    (IDLE, LEAVES_GROUPS): HANDING_OVER,
    (LEVELLING, LEVELLED): FETCHING,
    (LEVELLING, ENDS): IDLE,
    (LEVELLING, LEAVES_GROUPS): HANDING_OVER,
    (FETCHING, ENDS): IDLE,
    (FETCHING, LEAVES_GROUPS): HANDING_OVER,
    (HANDING_OVER, BEGINS): LEVELLING,
    (HANDING_OVER, HANDED_OVER): IDLE,
}


# Leaving the cluster (membership/leaving.py).
STAYING: Final = "staying"
DRAINING: Final = "draining"
ENDING: Final = "ending"
LEFT: Final = "left"

LEAVES: Final = "an operator asks for it"
ABORTS: Final = "an operator aborts it"
DRAINED: Final = "every member has on its disk what this region had"
ENDED: Final = "a peer has ended the membership, and has that on its disk"

LEAVE: Final[States] = {
    (STAYING, LEAVES): DRAINING,
    (DRAINING, ABORTS): STAYING,
    (DRAINING, DRAINED): ENDING,
    (ENDING, ENDED): LEFT,
}


def after(states: States, state: str, event: str) -> str:
    """The state after an event."""
    found = states.get((state, event))
    assert found is not None, f"{event!r} cannot happen in the state {state!r}"
    return found
