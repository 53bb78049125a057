"""Why a peer is not linked, and since when: the first questions of an operator.

A contact is a configured address, which may never have answered, an address that a region announced, or a region that
was linked from elsewhere. It keeps the last reason reported for it. `since_ms` is when the link was lost, or when this
region started.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

NOT_TRIED = "it has not been reached yet"
LINKED = -1


class Contact:
    """`region` is 0 until a region answers at `address`; `since_ms` is LINKED while the region is linked. `reached` is
    where the own shard of that region is, of several.
    """

    __slots__ = ("address", "reached", "reason", "region", "since_ms")

    def __init__(self, address: str, region: int, since_ms: int) -> None:
        self.address = address
        self.reached = address
        self.region = region
        self.since_ms = since_ms
        self.reason = NOT_TRIED


class Contacts:
    """The contacts of one region."""

    __slots__ = ("_addresses", "_announced", "_regions", "_removed", "began_ms")

    def __init__(self, peers: Iterable[str], now_ms: int) -> None:
        self.began_ms = now_ms
        self._addresses = {peer: Contact(peer, 0, now_ms) for peer in peers}
        self._announced: dict[str, Contact] = {}
        self._regions: dict[int, Contact] = {}
        self._removed: set[int] = set()

    def configure(self, peers: Iterable[str], now_ms: int) -> list[int]:
        """Keep a contact for each of these addresses; return the regions that answered at those that were removed."""
        before = self._addresses
        self._addresses = {peer: before[peer] if peer in before else Contact(peer, 0, now_ms) for peer in peers}
        gone = [contact.region for peer, contact in before.items() if peer not in self._addresses]
        removed = sorted({region for region in gone if region})
        self._removed.update(removed)
        return removed

    def discover(self, announced: Mapping[str, int], linked: Container[int], now_ms: int) -> None:
        """Dial what regions announce, by address, but for those that answer at a configured address, those whose
        address was removed since the start, and those that are linked already, because they dialled this region.
        """
        answered = {contact.region for contact in self._addresses.values()} | self._removed
        wanted = {
            address: region
            for address, region in announced.items()
            if region not in answered
            and address not in self._addresses
            and (address in self._announced or region not in linked)
        }
        before = self._announced
        self._announced = {
            address: before[address] if address in before else self._of_region(address, region, now_ms)
            for address, region in wanted.items()
        }

    def _of_region(self, address: str, region: int, now_ms: int) -> Contact:
        """A contact that continues what is known of a region without an address."""
        known = self._regions.pop(region, None)
        if known is None:
            return Contact(address, region, now_ms)
        known.address = known.reached = address
        return known

    def dialled(self) -> list[str]:
        """The addresses to dial, the configured ones first."""
        return [*self._addresses, *self._announced]

    def record_dial(self, address: str, reached: str) -> None:
        """Record where the own shard of the region at a configured address is dialled."""
        contact = self._addresses.get(address)
        if contact is not None:
            contact.reached = reached

    def record_answer(self, address: str, region: int) -> None:
        """Record which region answers at a configured address; other addresses are ignored, as for births."""
        if address in self._addresses:
            self._addresses[address].region = region
            self._removed.discard(region)

    def record_failure(self, address: str, reason: str) -> None:
        """Record why a dial to that address, or the link that it opened, ended; other addresses are ignored."""
        contact = self._addresses.get(address) or self._announced.get(address)
        if contact is not None:
            contact.reason = reason

    def record_end(self, region: int, reason: str, now_ms: int) -> None:
        """Record why a link with that region ended, whichever side had dialled."""
        self._regions.setdefault(region, Contact("", region, now_ms))
        for contact in self._all():
            if contact.region == region:
                contact.reason = reason

    def observe(self, linked: Container[int], now_ms: int) -> None:
        """Update `since_ms`, given the regions that are linked now."""
        for contact in self._all():
            if contact.region in linked:
                contact.since_ms = LINKED
            elif contact.since_ms == LINKED:
                contact.since_ms = now_ms

    def of(self, region: int) -> Contact | None:
        """Return the contact of a region, preferably the one with a configured address, then with any."""
        return next((contact for contact in self._all() if contact.region == region), None)

    def _all(self) -> list[Contact]:
        return [*self._addresses.values(), *self._announced.values(), *self._regions.values()]

    def unmet(self, shown: Container[int]) -> list[Contact]:
        """Return the configured addresses whose regions are not in `shown`."""
        return [contact for _, contact in sorted(self._addresses.items()) if contact.region not in shown]
