"""The remedy for regions that hold different effects under one dot, or that differ for any other reason."""

from __future__ import annotations

from typing import Final

REMEDY: Final = (
    "To repair it, let one region replace its state with another's and hand over what only it has: crdtstream admin"
    " --node HOST:PORT start-over --from REGION"
)
