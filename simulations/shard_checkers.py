"""What must hold of regions with several shards: of keys, of requests, and of links."""

from __future__ import annotations

from crdtstream.core.streams.deleted_streams import FORGOTTEN
from crdtstream.scenarios.reply import ReplyError, Value
from simulations.checking import Checker, Sampled
from simulations.network import Network
from simulations.shard_refusals import REFUSALS, Refused, WrongLink, shard_of


class HoldsOwnKeys(Sampled):
    """A shard holds no key of another one's hash slots, in any region, but its own record of forgotten deletions."""

    name = "own keys"

    def look(self, world: Network, number: int) -> None:
        if world.shards > 1:
            keyspace = world.machines[number].node.replica.keyspace
            wrong = [key for key, _ in keyspace.streams() if key[1] != FORGOTTEN and shard_of(key[1]) != world.shard]
            if wrong:
                self.fail(f"region {number} holds {sorted(wrong)}")


class Routes(Checker):
    """A shard serves what has its keys. Of anything else it names the shard that then serves it, or says that nobody
    knows where that is; requests with keys of two hash slots are refused everywhere, waiting ones too.
    """

    name = "routing"

    def commanded(self, world: Network, number: int, argv: list[bytes], value: Value) -> None:
        if isinstance(value, ReplyError) and value.text.startswith(REFUSALS):
            self.fail(f"region {number} refuses {argv} of its own: {value.text}")

    def refused(self, world: Network, number: int, refused: Refused) -> None:
        if not refused.is_as_expected():
            self.fail(f"region {number} answers {refused.values} to {refused.argv}, expected {refused.expected}")


class RefusesWithoutEffect(Checker):
    """What a shard refuses, because the keys belong elsewhere or nowhere, leaves nothing in its log."""

    name = "refused requests"

    def refused(self, world: Network, number: int, refused: Refused) -> None:
        if refused.changed:
            self.fail(f"region {number} refuses {refused.argv}, and has logged something")


class LinksEqualShards(Checker):
    """Shards of different numbers refuse each other, as do regions with different numbers of shards, before either has
    sent anything but its greeting.
    """

    name = "equal shards"

    def linked_wrongly(self, world: Network, link: WrongLink) -> None:
        if not link.is_refused():
            self.fail(f"{link} is not refused")


def shard_checkers() -> list[Checker]:
    return [HoldsOwnKeys(), Routes(), RefusesWithoutEffect(), LinksEqualShards()]
