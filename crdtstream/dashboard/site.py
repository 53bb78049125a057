"""Where the documentation is, as a site: mkdocs.yml and the rules of deploy/prometheus have this address too, and
a test compares them.
"""

from __future__ import annotations

# A reserved name (RFC 2606): operators build the site from docs/, serve it, and give its address with --docs.
SITE = "https://docs.crdtstream.example/"

ALERTS = "operations/#alerts"
# What to do about an alert, where that is more than a row of the table of all.
PAGES = {
    "BlockUnreadable": "operations/#a-block-that-cannot-be-read",
    "CertificateEnds": "security/#renewing-certificates",
    "DiskFillsUp": "recovery/#the-disk-is-full",
    "DiskNearlyFull": "runbook/#the-disk-is-full",
    "LogDamaged": "recovery/#damage",
    "LogHeldBack": "operations/#members",
    "LoopLate": "operations/#slow-commands",
    "PeerLacksRoom": "operations/#a-region-without-room",
    "RegionNotAdmitted": "operations/#members",
    "StateDiffers": "operations/#audit",
    "WritesRefused": "recovery/#the-disk-is-full",
}


def page_of(rule: str) -> str:
    """The path of the page on an alert, below the address of the site."""
    return PAGES.get(rule, ALERTS)


def site_of(url: str) -> str:
    """The address with the slash at its end."""
    return url if url.endswith("/") else f"{url}/"
