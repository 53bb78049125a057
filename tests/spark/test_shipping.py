"""The package as a zip: what Python imports from it is what lies here."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from crdtstream.spark.shipping import folder_of, write_zip


def test_a_zip_is_imported_from(tmp_path: Path) -> None:
    target = tmp_path / "package.zip"
    write_zip(target, "crdtstream", "pyspark_crdtstream")
    program = "import crdtstream.core.values.entry_id as module, pyspark_crdtstream; print(module.__file__)"
    code = f"import sys; sys.path.insert(0, {str(target)!r}); {program}"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(str(target))


@pytest.mark.parametrize("name", ["nothing_of_the_kind", "json.decoder"])
def test_what_is_no_package_is_refused(name: str) -> None:
    with pytest.raises(ImportError, match=f"{name} is not a package of this Python: install it"):
        folder_of(name)
