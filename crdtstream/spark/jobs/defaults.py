"""Defaults of the jobs' options, apart from the jobs: the command line shows them where Spark is not installed."""

from __future__ import annotations

from typing import Final

# How many times an audit compares differences, and how long regions may stay behind each other meanwhile.
ROUNDS: Final = 3
SETTLE_S: Final = 60.0
# The files that a backfill loads in one batch.
BATCH_BYTES: Final = 16 << 20
