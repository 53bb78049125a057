"""How far the own origin has come: its named state, and whether somebody waits for its admission.

    unborn       the log is being read
    new          its directory was empty, or had only heard of a cluster: it serves nobody before it is admitted
    used         its directory holds data, and has heard of no cluster: it serves
    returned     its directory was in a cluster, or was written to: it serves, and creates no groups
    admitted     it may do what only an admitted origin may

states.py has the events between them; every change of a state is made here.
"""

from __future__ import annotations

from crdtstream.replication.values.states import (
    ADMITTED,
    ASKS,
    DEMAND,
    IS_ADMITTED,
    IS_REPLACED,
    LAPSES,
    MEMBERSHIP,
    NEW,
    STARTS_EMPTY,
    STARTS_KNOWN,
    STARTS_USED,
    TURN_ENDS,
    UNASKED,
    UNBORN,
    USED,
    after,
)


class OwnState:
    """`state` of the own origin, and `demand` for its admission, which outlasts the origin."""

    __slots__ = ("demand", "state")

    def __init__(self) -> None:
        self.state = UNBORN
        self.demand = UNASKED

    def start(self, is_known: bool, holds_data: bool) -> None:
        """The log is read; `is_known`: this directory was in a cluster, or was written to and has heard of one."""
        self._pass(STARTS_KNOWN if is_known else STARTS_USED if holds_data else STARTS_EMPTY)

    def admit(self) -> None:
        self._pass(IS_ADMITTED)

    def lapse(self) -> None:
        """The admission was not said yet, and the Join that it rests on is void."""
        self._pass(LAPSES)

    def replace(self) -> None:
        """The process continues as another origin."""
        self._pass(IS_REPLACED)

    def ask(self) -> None:
        """Somebody needs the admission."""
        self.demand = after(DEMAND, self.demand, ASKS)

    def end_turn(self) -> None:
        """Who asked in this turn was heeded; that somebody did is remembered."""
        self.demand = after(DEMAND, self.demand, TURN_ENDS)

    def _pass(self, event: str) -> None:
        self.state = after(MEMBERSHIP, self.state, event)

    @property
    def is_admitted(self) -> bool:
        return self.state == ADMITTED

    @property
    def is_new(self) -> bool:
        """True while this directory has been in no cluster, whatever it holds."""
        return self.state in (NEW, USED)

    @property
    def serves(self) -> bool:
        """True if clients need not wait for the admission."""
        return self.state != NEW

    @property
    def was_asked(self) -> bool:
        """True if somebody has asked since the start."""
        return self.demand != UNASKED
