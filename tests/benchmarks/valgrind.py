"""What tests need that count instructions under valgrind."""

from __future__ import annotations

import shutil

import pytest

needs_valgrind = pytest.mark.skipif(
    shutil.which("valgrind") is None or shutil.which("vgdb") is None, reason="valgrind is not installed"
)
