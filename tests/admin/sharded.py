"""`crdtstream admin` told of one of several sharded regions."""

from __future__ import annotations

import json
from typing import Any

from crdtstream.processes.sharded import ShardedRegion
from tests.admin.invoking import invoke


def admin(region: ShardedRegion, *words: str, columns: int = 160) -> tuple[int, str]:
    return invoke(region, *words, columns=columns)


def admin_json(region: ShardedRegion, *words: str) -> tuple[int, Any]:
    code, text = admin(region, "--json", *words)
    return code, json.loads(text)
