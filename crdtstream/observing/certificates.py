"""When the certificates of TLS ports end, in words. Pure.

`Ends` are what INFO says: for each port the second since 1970 at which its certificate ends, or the authority that
signed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

DAY_S = 86_400
SOON_S = 14 * DAY_S

Ends = Mapping[str, int]


def first_end_s(ends: Ends) -> int | None:
    """None without TLS."""
    return min(ends.values(), default=None)


def end_text(end_s: int, now_s: float) -> str:
    """`2027-01-31, 40 days`; one that ends soon says so first."""
    day = datetime.fromtimestamp(end_s, UTC).strftime("%Y-%m-%d")
    if end_s <= now_s:
        return f"ended {day}"
    left = int(end_s - now_s) // DAY_S
    return f"{'ends soon: ' if is_soon(end_s, now_s) else ''}{day}, {left} day{'' if left == 1 else 's'}"


def is_soon(end_s: int, now_s: float) -> bool:
    return end_s - now_s < SOON_S


def ending(name: str, ends: Ends, now_s: float) -> list[str]:
    """A sentence for each certificate of this region that has ended or soon does, the first to end first."""
    soon = sorted((end_s, port) for port, end_s in ends.items() if is_soon(end_s, now_s))
    return [f"the certificate of the {port} port of {name} {verb(end_s, now_s)}" for end_s, port in soon]


def verb(end_s: int, now_s: float) -> str:
    return end_text(end_s, now_s).replace("ends soon: ", "ends ").replace(", ", ", in ")
