"""Why a peer is not linked, and since when: the first questions of an operator.

A contact is a configured address, which may never have answered, or a region that was linked from elsewhere. It keeps
the last reason reported for it. `since_ms` is when the link was lost, or when this region started.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

NOT_TRIED = "it has not been reached yet"
LINKED = -1


class Contact:
    """`region` is 0 until a region answers at `address`; `since_ms` is LINKED while the region is linked."""

    __slots__ = ("address", "reason", "region", "since_ms")

    def __init__(self, address: str, region: int, since_ms: int) -> None:
        self.address = address
        self.region = region
        self.since_ms = since_ms
        self.reason = NOT_TRIED


class Contacts:
    """The contacts of one region."""

    __slots__ = ("_addresses", "_regions", "began_ms")

    def __init__(self, peers: Iterable[str], now_ms: int) -> None:
        self.began_ms = now_ms
        self._addresses = {peer: Contact(peer, 0, now_ms) for peer in peers}
        self._regions: dict[int, Contact] = {}

    def configure(self, peers: Iterable[str], now_ms: int) -> list[int]:
        """Keep a contact for each of these addresses; return the regions that answered at those that were removed."""
        before = self._addresses
        self._addresses = {peer: before[peer] if peer in before else Contact(peer, 0, now_ms) for peer in peers}
        gone = [contact.region for peer, contact in before.items() if peer not in self._addresses]
        return sorted({region for region in gone if region})

    def note_answer(self, address: str, region: int) -> None:
        """Record which region answers at a configured address; other addresses are ignored, as for births."""
        if address in self._addresses:
            self._addresses[address].region = region

    def note_failure(self, address: str, reason: str) -> None:
        """Record why a dial to that address, or the link that it opened, ended; other addresses are ignored."""
        if address in self._addresses:
            self._addresses[address].reason = reason

    def note_end(self, region: int, reason: str, now_ms: int) -> None:
        """Record why a link with that region ended, whichever side had dialled."""
        contact = self._regions.setdefault(region, Contact("", region, now_ms))
        contact.reason = reason
        for other in self._addresses.values():
            if other.region == region:
                other.reason = reason

    def observe(self, linked: Container[int], now_ms: int) -> None:
        """Update `since_ms`, given the regions that are linked now."""
        for contact in [*self._addresses.values(), *self._regions.values()]:
            if contact.region in linked:
                contact.since_ms = LINKED
            elif contact.since_ms == LINKED:
                contact.since_ms = now_ms

    def of(self, region: int) -> Contact | None:
        """Return the contact of a region, preferably the one with a configured address."""
        found = [contact for contact in self._addresses.values() if contact.region == region]
        return found[0] if found else self._regions.get(region)

    def unmet(self, shown: Container[int]) -> list[Contact]:
        """Return the configured addresses whose regions are not in `shown`."""
        return [contact for _, contact in sorted(self._addresses.items()) if contact.region not in shown]
