"""When the certificate of a TLS port ends, as the port itself shows it."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime

from crdtstream.observing.access import Access

TIMEOUT_S = 5.0
SOON_DAYS = 14


async def certificate_end(address: str, access: Access) -> str:
    """The day, and how many days are left; empty without TLS, or where the port does not answer."""
    if not access.authority:
        return ""
    host, _, port = address.rpartition(":")
    try:
        async with asyncio.timeout(TIMEOUT_S):
            _, writer = await asyncio.open_connection(host.strip("[]"), int(port), ssl=context_of(access))
    except OSError:
        return ""
    told = writer.get_extra_info("peercert").get("notAfter", "")
    writer.close()
    return end_text(told, datetime.now(UTC)) if told else ""


def context_of(access: Access) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=access.authority)
    if access.certificate:
        context.load_cert_chain(access.certificate, access.key)
    return context


def end_text(told: str, now: datetime) -> str:
    """`2027-01-31, 40 days`; one that ends soon says so first."""
    end = datetime.fromtimestamp(ssl.cert_time_to_seconds(told), UTC)
    left = (end - now).days
    if left < 0:
        return f"ended {end:%Y-%m-%d}"
    return f"{'ends soon: ' if left < SOON_DAYS else ''}{end:%Y-%m-%d}, {left} days"
