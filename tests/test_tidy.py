"""Style, layers and purity as a test: every rule is a function from a file to the faults in it.

A rule reads a `Source` and yields faults as `path:line: what`; the repository must have none. Each rule is tested with
examples that break it, so that a rule which stopped seeing is noticed.
"""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
LINE_CHARACTERS_MAX = 120

# Lowest first. A part may import the parts of the rows above its own, never a neighbour in its row. `crdtstream` itself
# (version and docstring) is below everything; `config` is for the node and what lies over it.
LAYERS = (
    ("crdtstream",),
    ("core",),
    ("config",),
    ("protocols",),
    ("commands", "replication"),
    ("node",),
    ("storage",),
    ("runtime",),
    ("servers",),
    ("demo", "admin"),
    ("cli",),
    ("__main__",),
)
RANKS = {part: rank for rank, row in enumerate(LAYERS) for part in row}
PURE = frozenset({"core", "config", "protocols", "commands", "replication", "node"})

# A client of the public ports in a process of its own sees nothing of a node but the bytes.
CLIENTS = {"spark": frozenset({"protocols"}), "dashboard": frozenset({"protocols"})}
SIMULATED = frozenset(part for part, rank in RANKS.items() if rank <= RANKS["storage"])

# What the pure layers may import. Never to be here: whatever reads a clock, a random source, a socket or a file.
PURE_LIBRARY = frozenset(
    (
        "__future__",
        "abc",
        "array",
        "binascii",
        "bisect",
        "collections",
        "dataclasses",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "itertools",
        "math",
        "operator",
        "re",
        "struct",
        "typing",
        "zlib",
    )
)
PURE_NAMES = frozenset({"sys.byteorder"})
PURE_PACKAGES = {
    "core": frozenset({"mypy_extensions", "sortedcontainers"}),
    "commands": frozenset({"mypy_extensions"}),
    "protocols": frozenset({"hiredis", "msgpack", "mypy_extensions", "zstandard"}),
    "replication": frozenset({"google"}),
}
IMPURE_CALLS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})
KEEPS_ORDER = frozenset({"enumerate", "iter", "list", "map", "filter", "tuple", "zip"})

BANNED_WORDS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")

# Tests that cut across modules. Any other tests/a/test_b.py, or test_b_more.py, is about crdtstream/a/b.py or
# simulations/b.py, benchmarks/b.py or nemesis/b.py, in tests/ of that name.
CROSS_CUTTING = frozenset(
    {
        "test_containers",
        "test_convergence",
        "test_crash",
        "test_demo",
        "test_garbage",
        "test_processes",
        "test_recovery",
        "test_redis_parity",
        "test_rot",
        "test_scenarios",
        "test_state_transfer",
        "test_tidy",
    }
)


class Source:
    """One file, parsed when a rule asks for it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text
        self.tree = ast.parse(text) if path.endswith(".py") else ast.Module(body=[], type_ignores=[])

    @property
    def module(self) -> list[str]:
        """`crdtstream/core/block.py` -> crdtstream, core, block; a package is named by its directory."""
        parts = self.path.removesuffix(".py").split("/")
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def part(self) -> str:
        """The name that `LAYERS` knows the file by; empty outside the package."""
        module = self.module
        if module[0] != "crdtstream":
            return ""
        return module[1] if len(module) > 1 else "crdtstream"

    def fault(self, line: int, what: str) -> str:
        return f"{self.path}:{line}: {what}"


Rule = Callable[[Source], Iterator[str]]


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module imported anywhere in the file, absolute; `from package import name` gives package.name."""
    package = source.module if source.path.endswith("/__init__.py") else source.module[:-1]
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{prefix}.{alias.name}"


def long_functions(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield source.fault(node.lineno, f"{node.name} has {lines} lines, more than {FUNCTION_LINES_MAX}")


def long_files(source: Source) -> Iterator[str]:
    lines = source.text.count("\n")
    if lines > FILE_LINES_MAX:
        yield source.fault(1, f"{lines} lines, more than {FILE_LINES_MAX}")


def long_lines(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        if len(line) > LINE_CHARACTERS_MAX:
            yield source.fault(number, f"{len(line)} characters, more than {LINE_CHARACTERS_MAX}")


def banned_words(source: Source) -> Iterator[str]:
    for number, line in enumerate(source.text.splitlines(), 1):
        for word in BANNED_WORDS.findall(line):
            yield source.fault(number, f"{word}: do it, or say why it is as it is")


def missing_docstrings(source: Source) -> Iterator[str]:
    if source.text.strip() and ast.get_docstring(source.tree) is None:
        yield source.fault(1, "no module docstring")


def banners(source: Source) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and re.search(r"([-=#*~])\1{3}", token.string):
            yield source.fault(token.start[0], "a banner: split the file instead")


def upward_imports(source: Source) -> Iterator[str]:
    for line, name in imports(source):
        parts = name.split(".")
        if parts[0] == "simulations":
            yield source.fault(line, "the package imports its simulator")
        elif parts[0] == "crdtstream":
            target = "crdtstream" if parts[1:] in ([], ["__version__"]) else parts[1]
            what = layer_fault(source.part, target)
            if what:
                yield source.fault(line, what)


def layer_fault(part: str, target: str) -> str:
    """Why `part` may not import `target`; empty when it may."""
    if part in CLIENTS:
        allowed = target in CLIENTS[part] or target in (part, "crdtstream")
        return "" if allowed else f"{part} is a client and may not import {target}"
    for name in (part, target):
        if name not in RANKS:
            return f"{name} has no layer: give it one in {Path(__file__).name}"
    if part == target or RANKS[target] < RANKS[part]:
        return ""
    return f"{part} may not import {target}: imports go downward only"


def impure_imports(source: Source) -> Iterator[str]:
    if source.part not in PURE:
        return
    allowed = PURE_LIBRARY | PURE_PACKAGES.get(source.part, frozenset()) | {"crdtstream"}
    for line, name in imports(source):
        known = name in PURE_NAMES or name.split(".")[0] in allowed
        if not known or "_pb2_grpc" in name:
            yield source.fault(line, f"{source.part} is pure and may not import {name}")


def impure_calls(source: Source) -> Iterator[str]:
    if source.part not in PURE:
        return
    for node in ast.walk(source.tree):
        name = called_name(node)
        if name in IMPURE_CALLS:
            assert isinstance(node, ast.Call)
            yield source.fault(node.lineno, f"{source.part} is pure and may not call {name}()")


def hash_order(source: Source) -> Iterator[str]:
    """Sets written down where their order becomes visible; a set behind a name is the reviewer's to find."""
    if source.part not in PURE:
        return
    for node in ast.walk(source.tree):
        for place in ordered_places(node):
            if is_set(place):
                yield source.fault(place.lineno, "the order of a set depends on hashes: sort it")


def ordered_places(node: ast.AST) -> list[ast.expr]:
    """The expressions whose iteration order this node exposes."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call):
        joins = isinstance(node.func, ast.Attribute) and node.func.attr in ("join", "extend")
        return node.args if joins or called_name(node) in KEEPS_ORDER else []
    return []


def is_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Set | ast.SetComp) or called_name(node) in ("set", "frozenset")


def called_name(node: ast.AST) -> str:
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def two_typed_errors(source: Source) -> Iterator[str]:
    """Compiled, a name has one type in a function: an exception of a second type under it raises TypeError."""
    if source.part not in PURE:
        return
    for function in ast.walk(source.tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        seen: dict[str, str] = {}
        for handler in ast.walk(function):
            if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type is not None:
                kind = ast.unparse(handler.type)
                if seen.setdefault(handler.name, kind) != kind:
                    yield source.fault(handler.lineno, f"{handler.name} is {seen[handler.name]} already: rename it")


def simulated_imports(source: Source) -> Iterator[str]:
    for line, name in imports(source):
        parts = name.split(".")
        if parts[0] == "crdtstream" and len(parts) > 1 and parts[1] not in SIMULATED:
            yield source.fault(line, f"simulations may not import crdtstream.{parts[1]}: layers 0-4 only")


def stray_tests(source: Source) -> Iterator[str]:
    path = Path(source.path)
    if not path.name.startswith("test_") or path.stem in CROSS_CUTTING:
        return
    if not any(mirrors(path, module) for module in mirrored_modules(path.parts[1:-1])):
        yield source.fault(1, f"mirrors no module; a cross-cutting test is named in {Path(__file__).name}")


def mirrored_modules(folders: tuple[str, ...]) -> list[Path]:
    """The modules and packages that tests in this folder may be about."""
    homes = [ROOT / "crdtstream" / Path(*folders)]
    if folders[:1] in (("simulations",), ("benchmarks",), ("nemesis",)):
        homes.append(ROOT / Path(*folders))
    return [path for home in homes if home.is_dir() for path in home.iterdir()]


def mirrors(test: Path, module: Path) -> bool:
    stem = test.stem.removeprefix("test_")
    return stem == module.stem or stem.startswith(f"{module.stem}_")


def sources(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Source]:
    """Written files below these folders, in order; generated code is not written."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and "_pb2" not in path.name:
                yield Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


PACKAGE = ("crdtstream",)
CODE = ("crdtstream", "simulations", "benchmarks", "nemesis")
EVERYTHING = ("crdtstream", "simulations", "tests", "benchmarks", "nemesis", "proto", "scripts")

RULES: list[tuple[Rule, tuple[str, ...]]] = [
    (long_functions, CODE),
    (long_files, CODE),
    (long_lines, EVERYTHING),
    (banned_words, EVERYTHING),
    (missing_docstrings, (*CODE, "tests")),
    (banners, CODE),
    (upward_imports, PACKAGE),
    (impure_imports, PACKAGE),
    (impure_calls, PACKAGE),
    (hash_order, PACKAGE),
    (two_typed_errors, PACKAGE),
    (simulated_imports, ("simulations",)),
    (stray_tests, ("tests",)),
]


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
    (upward_imports, "crdtstream/core/a.py", "from ..node import Node\n", "core may not import node"),
    (upward_imports, "crdtstream/core/a.py", "from .. import node\n", "core may not import node"),
    (upward_imports, "crdtstream/core/a.py", "def f():\n    import crdtstream.config\n", "core may not import config"),
    (
        upward_imports,
        "crdtstream/commands/a.py",
        "from crdtstream.replication import inbox\n",
        "may not import replication",
    ),
    (upward_imports, "crdtstream/node.py", "from crdtstream.storage.disk import Disk\n", "node may not import storage"),
    (upward_imports, "crdtstream/servers/a.py", "from crdtstream import cli\n", "servers may not import cli"),
    (upward_imports, "crdtstream/__init__.py", "from crdtstream.node import Node\n", "crdtstream may not import node"),
    (upward_imports, "crdtstream/extras/a.py", "from crdtstream.core import block\n", "extras has no layer"),
    (upward_imports, "crdtstream/spark/a.py", "from crdtstream.core import block\n", "spark is a client"),
    (upward_imports, "crdtstream/cli.py", "import simulations.world\n", "imports its simulator"),
    (impure_imports, "crdtstream/core/a.py", "import time\n", "core is pure and may not import time"),
    (impure_imports, "crdtstream/core/a.py", "import msgpack\n", "core is pure and may not import msgpack"),
    (
        impure_imports,
        "crdtstream/node.py",
        "from asyncio import sleep\n",
        "node is pure and may not import asyncio.sleep",
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
    (hash_order, "crdtstream/node.py", "for i, x in enumerate(frozenset(y)):\n    pass\n", "depends on hashes"),
    (hash_order, "crdtstream/node.py", "b''.join({b'a', b'b'})\n", "depends on hashes"),
    (hash_order, "crdtstream/node.py", "f(*set(y))\n", "depends on hashes"),
    (
        two_typed_errors,
        "crdtstream/core/a.py",
        "def f():\n try:\n  g()\n except OSError as e:\n  h(e)\n except ValueError as e:\n  h(e)\n",
        "e is OSError already",
    ),
    (
        simulated_imports,
        "simulations/a.py",
        "from crdtstream.runtime import loop\n",
        "may not import crdtstream.runtime",
    ),
    (simulated_imports, "simulations/a.py", "from crdtstream import servers\n", "may not import crdtstream.servers"),
    (stray_tests, "tests/core/test_nothing_like_it.py", "", "mirrors no module"),
    (stray_tests, "tests/test_entry_id.py", "", "mirrors no module"),
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
    (upward_imports, "crdtstream/node.py", "from crdtstream.config import Config\nimport crdtstream.commands\n"),
    (impure_imports, "crdtstream/core/a.py", "import sortedcontainers\nfrom collections.abc import Iterator\n"),
    (impure_imports, "crdtstream/protocols/a.py", "from sys import byteorder\n"),
    (impure_imports, "crdtstream/runtime/a.py", "import asyncio, time\n"),
    (impure_calls, "crdtstream/storage/a.py", "open('x')\n"),
    (hash_order, "crdtstream/core/a.py", "for x in sorted({1, 2}):\n    pass\nn = len(set(y))\n"),
    (simulated_imports, "simulations/a.py", "from crdtstream.storage.disk import Disk\nimport crdtstream\n"),
    (stray_tests, "tests/core/test_entry_id.py", ""),
    (stray_tests, "tests/core/test_entry_id_modes.py", ""),
    (stray_tests, "tests/test_convergence.py", ""),
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


def generated(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("wire_pb2*.py*"))}


def stale(committed: dict[str, str], fresh: dict[str, str]) -> list[str]:
    return [name for name in sorted({*committed, *fresh}) if committed.get(name) != fresh.get(name)]


@pytest.mark.skipif(not (ROOT / "proto").is_dir(), reason="no gRPC contract yet")
def test_generated_code_is_fresh(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    subprocess.run([ROOT / "scripts" / "proto", tmp_path], env=environment, check=True, capture_output=True)
    fresh = generated(tmp_path / "crdtstream" / "replication")
    assert len(fresh) >= 3
    assert not stale(generated(ROOT / "crdtstream" / "replication"), fresh), "run scripts/proto"


def test_stale_code_is_seen() -> None:
    assert stale({"a": "1", "b": "1", "c": "1"}, {"a": "1", "b": "2", "d": "1"}) == ["b", "c", "d"]
