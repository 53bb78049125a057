"""Which origin this region is, and every origin it has heard of.

An origin is born when its data directory is new, and again after an unclean stop that may have lost what peers already
hold: no mark of a clean stop in the log, another kernel boot than the log's, and a logged policy other than `always`.
(A killed process alone loses nothing that it appended: the kernel still has it.)

A new directory may be one that lost its disk, so it first asks every configured peer for the highest incarnation of its
region and takes the next; it serves once each of them has that birth on disk. A configured peer is an address and
counts as the region that answers there; a region that dials in from elsewhere stands in for none. `--incarnation`
stands in for peers that are absent. A birth is synced before the first effect under it. And a new directory serves only
once it was admitted (`joined`, which membership.py sets), by a member or by another one of those that found the cluster
(founding.py).
"""

from __future__ import annotations

from crdtstream.config import ALWAYS, Config, ConfigError
from crdtstream.core.causality import INCARNATION_MAX, Origin
from crdtstream.protocols import codec
from crdtstream.replication.founding import Founding
from crdtstream.replication.turn import Turn


class Birth:
    """The own origin's life, and the table of all births."""

    __slots__ = (
        "_addresses",
        "_asks",
        "_boot_id",
        "_clean",
        "_config",
        "_confirmed",
        "_founds",
        "_greeted",
        "_nonce",
        "_own",
        "_policy",
        "_position",
        "_started",
        "_synced",
        "founding",
        "joined",
        "known",
        "origin",
    )

    def __init__(self, config: Config) -> None:
        self._config = config
        self.origin: Origin | None = None
        self.known: dict[int, Origin] = {}
        self.founding = Founding()
        self._own: list[Origin] = []
        self._boot_id = b""
        self._policy = ""
        self._clean = True
        self._nonce = 0
        self.joined = False
        self._asks = False
        self._founds = False
        self._started = False
        self._position = 0
        self._synced = 0
        self._confirmed: dict[int, None] = {}
        self._addresses: dict[str, int] = {}
        self._greeted: dict[int, None] = {}

    def slot(self) -> int:
        return 0 if self.origin is None else self.origin.slot

    def nonce(self) -> int:
        return 0 if self.origin is None else self.origin.nonce

    def recover(self, kind: int, payload: bytes) -> None:
        """A record of the log that is about origins or starts."""
        if kind == codec.BIRTH:
            origin, own = codec.decode_origin(payload)
            self.known[origin.slot] = origin
            if own:
                self._adopt(origin)
        elif kind == codec.START:
            self._boot_id, self._policy = codec.decode_start(payload)
            self._clean = False
        elif kind == codec.STOP:
            self._clean = True

    def records(self) -> list[tuple[int, bytes]]:
        """Records that tell `recover` all that is known now, for a checkpoint."""
        births = [origin for origin in self.known.values() if origin not in self._own]
        told = [(codec.BIRTH, codec.encode_origin(origin, False)) for origin in births]
        told += [(codec.BIRTH, codec.encode_origin(origin, True)) for origin in self._own]
        return [*told, (codec.START, codec.encode_start(self._boot_id, self._policy))]

    def latest(self) -> list[int]:
        """The slot of each known region's latest incarnation, which speaks for the region."""
        return sorted({origin.region: slot for slot, origin in sorted(self.known.items())}.values())

    def own_slots(self) -> list[int]:
        """Of every origin that this directory has had, in order."""
        return [origin.slot for origin in self._own]

    def _adopt(self, origin: Origin) -> None:
        if origin.region != self._config.region:
            raise ConfigError(
                f"the data directory {self._config.data} belongs to region {origin.region}, not to region"
                f" {self._config.region}: give --region {origin.region} or another --data"
            )
        self.origin = origin
        self._own.append(origin)

    def start(self, boot_id: bytes, nonce: int, turn: Turn, served: bool = True) -> None:
        """Decide, after recovery, and log the start; `served` tells whether any origin of this directory was ever at
        work.
        """
        self._started = True
        self._nonce = nonce
        lost = self.may_have_lost(boot_id)
        self._boot_id, self._policy, self._clean = boot_id, self._config.fsync, False
        turn.add(codec.START, codec.encode_start(boot_id, self._config.fsync))
        if self.origin is not None:
            self._asks = self._config.incarnation is None and bool(self._config.peers) and not served
            if lost:
                self._bear(self._highest() + 1, turn)
        elif self._config.incarnation is not None:
            self._bear(self._config.incarnation, turn)
        elif self._config.peers:
            self._asks = True
        else:
            self._bear(self._highest() + 1, turn)

    def may_have_lost(self, boot_id: bytes) -> bool:
        return not self._clean and self._boot_id != boot_id and self._policy != ALWAYS

    def _highest(self) -> int:
        """The highest incarnation of this region that is known; -1 when none is."""
        return max((o.incarnation for o in self.known.values() if o.region == self._config.region), default=-1)

    def _bear(self, incarnation: int, turn: Turn) -> None:
        if incarnation > INCARNATION_MAX:
            raise ConfigError(f"region {self._config.region} has used all {INCARNATION_MAX + 1} incarnations")
        turn.cut()
        origin = Origin(self._config.region, incarnation, self._nonce)
        self._adopt(origin)
        self.known[origin.slot] = origin
        self._position = turn.add(codec.BIRTH, codec.encode_origin(origin, True))

    def bear_anew(self, turn: Turn) -> None:
        """The origin was evicted."""
        self._asks = False
        self._bear(self._highest() + 1, turn)

    def advance(self, greeted: list[int], turn: Turn, untouched: bool = False) -> bool:
        """True when the origin is born just now: every configured peer has told what it knows. `untouched`: as far as
        this region knows nobody has done anything yet.
        """
        if not self._asks or self._founds or self.joined:
            return False
        self._greeted = dict.fromkeys(greeted)
        if self._absent(self._greeted):
            return False
        born = self.origin is None
        if born:
            self._bear(self._highest() + 1, turn)
        if not self.unsynced():
            self.founding.tell(self.slot(), {self._addresses[peer] for peer in self._config.peers})
        self._founds = untouched and not self.founding.missing(self._config.region)
        return born

    def met(self, address: str, region: int) -> None:
        """That region answers at a configured peer's address; others may greet too, and do not count."""
        self._addresses[address] = region

    def _absent(self, present: dict[int, None]) -> list[str]:
        """The configured peers whose region is not among these."""
        return [peer for peer in self._config.peers if self._addresses.get(peer) not in present]

    def confirmed(self, region: int, slot: int) -> None:
        """A peer has this birth on disk."""
        if self.origin is not None and slot == self.origin.slot:
            self._confirmed[region] = None

    def synced(self, position: int) -> None:
        self._synced = position

    def unsynced(self) -> bool:
        """Clients wait until the own birth is on disk."""
        return self._position > self._synced

    def synced_origin(self) -> Origin | None:
        """The own origin once its birth is on disk: nobody hears of it before."""
        return None if self.unsynced() else self.origin

    def serving(self) -> bool:
        return self.waiting_for() == ""

    def waiting_for(self) -> str:
        """What clients are told while this region cannot serve; empty when it can."""
        if not self._started:
            return "the log is being read"
        if self.origin is None:
            silent = ", ".join(self._absent(self._greeted))
            return f"a new data directory waits to hear from its peers {silent}; --incarnation N replaces absent ones"
        if self.unsynced():
            return "the birth of this origin is being written"
        absent = self._absent(self._confirmed) if self._asks else []
        if absent:
            return f"waiting until {', '.join(absent)} has stored the birth of this origin"
        if self._asks and not self.joined:
            return self._waiting_for_others()
        return ""

    def _waiting_for_others(self) -> str:
        wait = "waiting until another region admits this origin; --incarnation N stands in where none is left"
        missing = self.founding.missing(self._config.region)
        if not missing:
            return wait
        names = ", ".join(map(str, missing))
        return f"{wait}; a new cluster begins when all its regions have met, of regions {names} that is not known yet"

    def may_sponsor(self) -> bool:
        """Effects may be prepared under this origin, and whom it admits follows what its own sponsor had."""
        if self.origin is None or self.unsynced() or (self._asks and self._absent(self._confirmed)):
            return False
        return self._founds or self.joined or not self._asks

    # Other origins

    def conflict(self, origin: Origin) -> str | None:
        """Why an origin cannot be what it says, or None. A later incarnation of this region is one that nobody bore: it
        would leave fewer of them, and of those there are few.
        """
        known = self.known.get(origin.slot)
        own = self.origin
        if known is None and own is not None and origin.region == own.region and origin.slot > own.slot:
            return (
                f"region {own.region} is at incarnation {own.incarnation}, and {origin.incarnation} is at work"
                " elsewhere: two data directories are used as one region; start the older one with an empty --data"
            )
        if known is None or known.nonce == origin.nonce:
            return None
        return (
            f"slot {origin.slot} (region {origin.region}, incarnation {origin.incarnation}) is held by two directories:"
            " two nodes have the same region number, or a directory was copied; give one of them its own --region,"
            " or start it with an empty --data"
        )

    def accept(self, origin: Origin, turn: Turn) -> int:
        """Remember another origin; returns the position of its record, 0 when it was known."""
        if origin.slot in self.known:
            return 0
        self.known[origin.slot] = origin
        turn.cut()
        return turn.add(codec.BIRTH, codec.encode_origin(origin, False))
