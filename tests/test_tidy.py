"""The repository keeps the rules of `tidy.py`. Each rule is tested with examples that break it, so that a rule which
stopped seeing is noticed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy import (
    CODE,
    EVERYTHING,
    ROOT,
    RULES,
    Rule,
    Source,
    banned_words,
    banners,
    circles,
    coroutines,
    floors_of_replication,
    hash_order,
    impure_calls,
    impure_imports,
    long_files,
    long_functions,
    long_lines,
    misplaced_files,
    missing_docstrings,
    modules_imported,
    package_files,
    private_access,
    simulated_imports,
    sources,
    stray_tests,
    two_typed_errors,
    upward_imports,
)


@pytest.mark.parametrize(("rule", "folders"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_repository_is_tidy(rule: Rule, folders: tuple[str, ...]) -> None:
    suffixes = (".py", ".proto", "") if folders == EVERYTHING else (".py",)
    faults = dict.fromkeys(fault for source in sources(*folders, suffixes=suffixes) for fault in rule(source))
    assert not faults, "\n" + "\n".join(faults)


LONG_BODY = "\n".join(["    pass"] * 60)

BROKEN: list[tuple[Rule, str, str, str]] = [
    (long_functions, "crdtstream/core/a.py", f"def f():\n{LONG_BODY}\n", "f has 61 lines"),
    (long_functions, "crdtstream/core/a.py", f"class A:\n  async def f(self):\n{LONG_BODY}\n", "f has 61 lines"),
    (long_files, "crdtstream/core/a.py", "x = 1\n" * 501, "501 lines"),
    (long_lines, "scripts/a", "x" * 121, "121 characters"),
    (banned_words, "tests/a.py", "# TO" + "DO: later\n", "do it"),
    (banned_words, "scripts/a", "# X" + "XX\n", "do it"),
    (missing_docstrings, "crdtstream/core/a.py", "x = 1\n", "no module docstring"),
    (banners, "crdtstream/core/a.py", "# ---- reading ----\n", "a banner"),
    (
        upward_imports,
        "crdtstream/core/a.py",
        "from crdtstream.protocols import resp\n",
        "core may not import protocols",
    ),
    (upward_imports, "crdtstream/core/a.py", "from ..region import node\n", "core may not import region"),
    (upward_imports, "crdtstream/core/a.py", "from .. import region\n", "core may not import region"),
    (
        upward_imports,
        "crdtstream/core/a.py",
        "def f():\n    import crdtstream.settings.config\n",
        "core may not import settings",
    ),
    (
        floors_of_replication,
        "crdtstream/replication/links/a.py",
        "from crdtstream.replication.exchange import exchange\n",
        "replication/links may not import replication/exchange",
    ),
    (
        floors_of_replication,
        "crdtstream/replication/links/a.py",
        "from crdtstream.connections.client import Client\n",
        "replication may not import connections",
    ),
    (
        upward_imports,
        "crdtstream/commands/a.py",
        "from crdtstream.replication import inbox\n",
        "may not import replication",
    ),
    (
        upward_imports,
        "crdtstream/region/node.py",
        "from crdtstream.storage.disk import Disk\n",
        "region is pure and may not import storage",
    ),
    (
        upward_imports,
        "crdtstream/region/node.py",
        "from crdtstream.settings.sources import from_file\n",
        "region is pure and may not import crdtstream.settings.sources.from_file, which uses files",
    ),
    (upward_imports, "crdtstream/runtime/a.py", "from crdtstream import cli\n", "runtime may not import cli"),
    (
        upward_imports,
        "crdtstream/__init__.py",
        "from crdtstream.region.node import Node\n",
        "crdtstream may not import region",
    ),
    (upward_imports, "crdtstream/extras/a.py", "from crdtstream.core import block\n", "extras has no layer"),
    (upward_imports, "crdtstream/spark/a.py", "from crdtstream.core import block\n", "spark is a client"),
    (
        upward_imports,
        "crdtstream/processes/a.py",
        "from crdtstream.settings.config import Config\n",
        "processes is a client and may not import settings",
    ),
    (upward_imports, "crdtstream/client/a.py", "from crdtstream.core import block\n", "client is a client"),
    (
        upward_imports,
        "crdtstream/runtime/a.py",
        "from crdtstream.processes.relay import Relay\n",
        "processes has no layer",
    ),
    (
        upward_imports,
        "crdtstream/scenarios/a.py",
        "from crdtstream.core import block\n",
        "scenarios is a client and may not import core",
    ),
    (upward_imports, "crdtstream/cli/app.py", "import simulations.world\n", "imports its simulator"),
    (impure_imports, "crdtstream/core/a.py", "import time\n", "core is pure and may not import time"),
    (impure_imports, "crdtstream/core/a.py", "import msgpack\n", "core is pure and may not import msgpack"),
    (
        impure_imports,
        "crdtstream/region/node.py",
        "from asyncio import sleep\n",
        "region is pure and may not import asyncio.sleep",
    ),
    (impure_imports, "crdtstream/core/a.py", "import sys\n", "core is pure and may not import sys"),
    (impure_imports, "crdtstream/commands/a.py", "def f():\n    import os.path\n", "commands is pure"),
    (
        impure_imports,
        "crdtstream/replication/a.py",
        "import crdtstream.replication.wire_pb2_grpc\n",
        "replication is pure",
    ),
    (impure_calls, "crdtstream/protocols/a.py", "open('x')\n", "may not call open()"),
    (impure_calls, "crdtstream/core/a.py", "def f():\n    print(1)\n", "may not call print()"),
    (hash_order, "crdtstream/core/a.py", "for x in {1, 2}:\n    pass\n", "depends on hashes"),
    (hash_order, "crdtstream/core/a.py", "[x for x in set(y)]\n", "depends on hashes"),
    (hash_order, "crdtstream/core/a.py", "{x: 1 for x in {y for y in z}}\n", "depends on hashes"),
    (hash_order, "crdtstream/region/node.py", "for i, x in enumerate(frozenset(y)):\n    pass\n", "depends on hashes"),
    (hash_order, "crdtstream/region/node.py", "b''.join({b'a', b'b'})\n", "depends on hashes"),
    (hash_order, "crdtstream/region/node.py", "f(*set(y))\n", "depends on hashes"),
    (
        two_typed_errors,
        "crdtstream/core/a.py",
        "def f():\n try:\n  g()\n except OSError as e:\n  h(e)\n except ValueError as e:\n  h(e)\n",
        "e is OSError already",
    ),
    (private_access, "crdtstream/core/a.py", "def f(tree):\n    return tree._blocks\n", "tree._blocks is private"),
    (private_access, "simulations/a.py", "class A:\n  def f(self):\n    self.b._c()\n", "self.b._c is private"),
    (private_access, "crdtstream/core/a.py", "from crdtstream.core.b import _c\n", "_c is private"),
    (coroutines, "crdtstream/storage/a.py", "async def f():\n    pass\n", "f is a coroutine"),
    (coroutines, "crdtstream/runtime/turns.py", "class A:\n  async def f(self):\n    pass\n", "f is a coroutine"),
    (
        simulated_imports,
        "simulations/a.py",
        "from crdtstream.runtime import loop\n",
        "may not import crdtstream.runtime",
    ),
    (simulated_imports, "simulations/a.py", "from crdtstream import servers\n", "may not import crdtstream.servers"),
    (stray_tests, "tests/core/test_nothing_like_it.py", "", "mirrors no module"),
    (stray_tests, "tests/test_entry_id.py", "", "mirrors no module"),
    (stray_tests, "tests/core/test_entry_identity.py", "", "mirrors no module"),
]

SOUND: list[tuple[Rule, str, str]] = [
    (long_functions, "crdtstream/core/a.py", "def f():\n" + "\n".join(["    pass"] * 59)),
    (missing_docstrings, "crdtstream/core/__init__.py", ""),
    (upward_imports, "crdtstream/core/a.py", "from crdtstream.core import block\nfrom . import stream\n"),
    (
        upward_imports,
        "crdtstream/commands/a.py",
        "from crdtstream import __version__\nfrom ..core.block import Block\n",
    ),
    (
        upward_imports,
        "crdtstream/region/node.py",
        "from crdtstream.settings.config import Config\nimport crdtstream.commands\n",
    ),
    (
        upward_imports,
        "crdtstream/demo/a.py",
        "from crdtstream.processes.relay import Relay\nfrom crdtstream.spark import session\n",
    ),
    (upward_imports, "crdtstream/demo/a.py", "from crdtstream.scenarios.text import Line\n"),
    (simulated_imports, "simulations/a.py", "from crdtstream.scenarios.text import Line\n"),
    (impure_imports, "crdtstream/core/a.py", "import sortedcontainers\nfrom collections.abc import Iterator\n"),
    (impure_imports, "crdtstream/protocols/a.py", "from sys import byteorder\n"),
    (impure_imports, "crdtstream/runtime/a.py", "import asyncio, time\n"),
    (impure_calls, "crdtstream/storage/a.py", "open('x')\n"),
    (private_access, "crdtstream/core/a.py", "class A:\n  def f(self, b):\n    self._c = b._c\n    super()._d()\n"),
    (private_access, "crdtstream/core/a.py", "from a import __version__\nx.__name__\n"),
    (coroutines, "crdtstream/runtime/loop.py", "async def f():\n    pass\n"),
    (hash_order, "crdtstream/core/a.py", "for x in sorted({1, 2}):\n    pass\nn = len(set(y))\n"),
    (simulated_imports, "simulations/a.py", "from crdtstream.storage.disk import Disk\nimport crdtstream\n"),
    (stray_tests, "tests/core/values/test_entry_id.py", ""),
    (stray_tests, "tests/core/values/test_entry_id_modes.py", ""),
    (stray_tests, "tests/test_convergence.py", ""),
    (stray_tests, "tests/test_convergence_again.py", ""),
]


@pytest.mark.parametrize(("rule", "path", "text", "expected"), BROKEN)
def test_rule_sees_what_breaks_it(rule: Rule, path: str, text: str, expected: str) -> None:
    faults = list(rule(Source(path, text)))
    assert len(faults) == 1
    assert faults[0].startswith(f"{path}:")
    assert expected in faults[0]


@pytest.mark.parametrize(("rule", "path", "text"), SOUND)
def test_rule_passes_what_keeps_it(rule: Rule, path: str, text: str) -> None:
    assert list(rule(Source(path, text))) == []


def test_every_rule_has_a_broken_example() -> None:
    assert {rule for rule, _ in RULES} == {rule for rule, *_ in BROKEN}


def test_rules_find_files() -> None:
    """An empty walk would pass everything."""
    for _, folders in RULES:
        assert any(sources(*folders)) or folders == ("simulations",)


def test_files_lie_where_they_may() -> None:
    paths = package_files()
    assert len(paths) > 300
    faults = misplaced_files(paths)
    assert not faults, "\n" + "\n".join(faults)


def test_misplaced_files_are_seen() -> None:
    def folder(name: str, modules: int) -> list[str]:
        return [f"{name}/__init__.py", *[f"{name}/m{number}.py" for number in range(modules)]]

    top = ["crdtstream/__init__.py", "crdtstream/__main__.py", "crdtstream/py.typed"]
    sound = [*top, *folder("crdtstream/core", 30), *folder("crdtstream/commands", 31), "crdtstream/core/a_pb2.py"]
    assert misplaced_files(sound) == []
    assert misplaced_files([*sound, "crdtstream/core/more.py"]) == ["crdtstream/core: 31 modules, more than 30"]
    (beside,) = misplaced_files([*sound, "crdtstream/node.py"])
    assert beside.startswith("crdtstream/node.py: only ")
    assert misplaced_files([*sound, "crdtstream/extras/a.py"]) == ["crdtstream/extras: no __init__.py"]


def test_no_module_imports_itself_by_way_of_others() -> None:
    imported = modules_imported(*CODE, "tests")
    assert len(imported) > 400
    assert circles(imported) == []


def test_circles_are_seen() -> None:
    ring = {"a": {"b"}, "b": {"c"}, "c": {"a"}}
    assert [names[0] for names in circles({**ring, "d": {"a"}, "b": {"c", "e"}, "e": set()})] == ["a", "b", "c"]


def generated(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*_pb2*.py*"))}


def stale(committed: dict[str, str], fresh: dict[str, str]) -> list[str]:
    return [name for name in sorted({*committed, *fresh}) if committed.get(name) != fresh.get(name)]


def test_generated_code_is_fresh(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([ROOT / "scripts" / "proto", tmp_path], env=environment, check=True, capture_output=True)
    for package in ("bulk", "replication"):
        fresh = generated(tmp_path / "crdtstream" / package)
        assert len(fresh) >= 3
        assert not stale(generated(ROOT / "crdtstream" / package), fresh), "run scripts/proto"


def test_stale_code_is_seen() -> None:
    assert stale({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == ["b", "c", "d"]
