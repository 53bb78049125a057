"""The region as its sessions see it: they receive the view with each message and change nothing in it."""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.core.values.causality import VersionVector
from crdtstream.replication.audit.audit import Audit
from crdtstream.replication.links.forwarding import Forwarding
from crdtstream.replication.links.greeting import OWN_VERSIONS
from crdtstream.replication.links.parts import Assemblies
from crdtstream.replication.log.history import History
from crdtstream.replication.log.holding import NOTHING_LACKS
from crdtstream.replication.origins.birth import Birth
from crdtstream.replication.transfer.fetching import Fetching
from crdtstream.replication.transfer.sending import Transfers
from crdtstream.replication.values.progress import ProgressTable
from crdtstream.settings.live import Settings


class View:
    """The parts of a region that its sessions report on, each with its owner, and state that the exchange maintains.

    `direct`: the origins of the linked peers, ascending; their batches need no relay. `served_position`: the last log
    position that peers may see. `life`: this region's sign of life. `deferrals`: an origin whose admission is deferred
    -> the origin whose signs of life defer it. `frozen`: no batches are applied or sent, because another state is about
    to replace this one (start_over.py). `lack`: what this region has no room in for batches (holding.py), and how many
    bytes peers may send ahead. `leaving`: the origin that is asked to end this region's membership, 0 for
    none, and the counter that it must hold of this region's origin. `versions`: what this region speaks.
    """

    __slots__ = (
        "assemblies",
        "audit",
        "birth",
        "deferrals",
        "direct",
        "durable_vector",
        "fetching",
        "forwarding",
        "frozen",
        "history",
        "lack",
        "leaving",
        "life",
        "progress",
        "replica",
        "served_position",
        "settings",
        "transfers",
        "versions",
    )

    def __init__(
        self, settings: Settings, replica: Replica, history: History, birth: Birth, fetching: Fetching, audit: Audit
    ) -> None:
        self.settings = settings
        self.replica = replica
        self.history = history
        self.birth = birth
        self.fetching = fetching
        self.audit = audit
        self.progress = ProgressTable()
        self.transfers = Transfers()
        self.assemblies = Assemblies()
        self.forwarding = Forwarding()
        self.direct: list[int] = []
        self.deferrals: dict[int, int] = {}
        self.durable_vector = VersionVector()
        self.served_position = 0
        self.life = 0
        self.frozen = False
        self.lack: tuple[str, int] = NOTHING_LACKS
        self.leaving = (0, 0)
        self.versions = OWN_VERSIONS
