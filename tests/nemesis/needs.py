"""What tests with real namespaces need, and how they say that it is not there."""

from __future__ import annotations

import pytest

from nemesis.network import reason_for_none

REASON = reason_for_none()
namespaces = pytest.mark.skipif(bool(REASON), reason=f"network namespaces cannot be made here: {REASON or 'they can'}")
