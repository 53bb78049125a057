"""One stream as a process serves it: what is replicated of it, its groups, and what was seen of its stale messages."""

from __future__ import annotations

from crdtstream.core.replica import Replica
from crdtstream.partitions.coordinator import Coordinator
from crdtstream.partitions.epochs import Epochs
from crdtstream.partitions.order import HomesHeard
from crdtstream.partitions.partition import Partition
from crdtstream.partitions.renumbering import Agreement, AskedMembers, Share
from crdtstream.partitions.state import StreamState
from crdtstream.partitions.values import Ahead, StreamSpec


class Served:
    """`looked`: what each partition held when it was last found without stale messages. `awaited`: at how many upkeeps
    in a row it had some, and another process of the region was the home. `placed`: under which line each partition was
    last seen without messages that are to be numbered again.
    """

    __slots__ = ("_agreement", "_replica", "awaited", "coordinator", "homes_heard", "looked", "placed", "state")

    def __init__(self, replica: Replica, spec: StreamSpec, ahead: Ahead) -> None:
        self._replica = replica
        self._agreement = Agreement()
        self.state = StreamState(replica, spec, ahead)
        self.coordinator = Coordinator(replica, self.state, ahead)
        self.looked: dict[int, object] = {}
        self.placed: dict[int, Epochs] = {}
        self.homes_heard = HomesHeard()
        self.awaited = 0

    def is_agreed(self, began_ms: int, members: AskedMembers) -> bool:
        """True if every process that lives knows the current epoch: see renumbering.py."""
        return self._agreement.reached(self.state.epoch_dot(), began_ms, self._replica, members)

    def renumber(self, partition: Partition, share: Share, began_ms: int, members: AskedMembers) -> bool:
        """Number stale messages of this partition again; false if some are left for later turns."""
        if not self.is_agreed(began_ms, members):
            return False
        finished = share.renumber(partition)
        while not finished and not share.is_spent():
            self._replica.budget.ease()
            finished = share.renumber(partition)
        return finished
