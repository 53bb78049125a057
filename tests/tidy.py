"""Style, layers and purity: every rule is a function from a file to the faults in it.

A rule reads a `Source` and yields faults as `path:line: what`; `test_tidy.py` demands that the repository has none.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Callable, Iterator
from functools import cache, cached_property
from pathlib import Path

from tests.private_access import private_accesses

ROOT = Path(__file__).resolve().parent.parent
FUNCTION_LINES_MAX = 60
FILE_LINES_MAX = 500
LINE_CHARACTERS_MAX = 120
FOLDER_MODULES_MAX = 30
# A folder that may hold more: a module for each family of commands.
FAMILIES = "crdtstream/commands"
TOP = frozenset({"__init__.py", "__main__.py", "py.typed"})

# Lowest first. A part may import the parts of the rows above its own, never a neighbour in its row. `crdtstream` itself
# (version and docstring) is below everything; `settings` and `status` are for the node and what lies over it.
LAYERS = (
    ("crdtstream",),
    ("core",),
    ("settings", "status"),
    ("protocols",),
    ("connections",),
    ("bulk", "commands", "replication", "storage"),
    ("partitions",),
    ("region",),
    ("runtime",),
    ("demo", "admin", "oci", "supervisor"),
    ("dashboard",),
    ("cli",),
    ("__main__",),
)
RANKS = {part: rank for rank, row in enumerate(LAYERS) for part in row}
PURE = frozenset(
    {
        "core",
        "settings",
        "status",
        "protocols",
        "connections",
        "commands",
        "replication",
        "bulk",
        "partitions",
        "region",
        "scenarios",
    }
)

# The folders of replication, lowest first: a module imports from its own and from those before it.
REPLICATION = ("values", "log", "transfer", "audit", "origins", "links", "exchange", "membership")

# Of the settings what reads and writes files; the rest is pure.
FILES_OF_SETTINGS = frozenset(
    {f"crdtstream.settings.{name}" for name in ("reloading", "rewriting", "sample", "secrets", "sources")}
)

# A client of the public ports in a process of its own sees nothing of a node but the bytes. What starts regions as
# processes sees not even these: a command line, a log, and what redis-py returns; nor do texts that others play.
CLIENTS: dict[str, frozenset[str]] = {
    "spark": frozenset({"bulk", "protocols"}),
    "observing": frozenset({"protocols"}),
    "processes": frozenset(),
    "scenarios": frozenset(),
    "migration": frozenset(),
    "client": frozenset(),
}
SIMULATED = frozenset(part for part, rank in RANKS.items() if rank <= RANKS["region"]) | {"scenarios"}

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
        "difflib",
        "enum",
        "functools",
        "hashlib",
        "heapq",
        "hmac",
        "itertools",
        "json",
        "math",
        "operator",
        "re",
        "struct",
        "typing",
        "zlib",
    )
)
NATIVE = (
    "BytesWriter",
    "read_i32_le",
    "read_i64_le",
    "write_i16_be",
    "write_i32_be",
    "write_i32_le",
    "write_i64_be",
    "write_i64_le",
)
PURE_NAMES = frozenset(("sys.byteorder", *[f"librt.strings.{name}" for name in NATIVE]))
PURE_PACKAGES = {
    # zstandard, because compression is a pure function.
    "core": frozenset({"mypy_extensions", "sortedcontainers", "zstandard"}),
    "connections": frozenset({"mypy_extensions", "sortedcontainers"}),
    "protocols": frozenset({"crcmod", "hiredis", "msgpack", "mypy_extensions", "zstandard"}),
    "replication": frozenset({"google", "sortedcontainers"}),
    "scenarios": frozenset({"io", "shlex"}),
}
IMPURE_CALLS = frozenset({"__import__", "breakpoint", "eval", "exec", "input", "open", "print"})
KEEPS_ORDER = frozenset({"enumerate", "iter", "list", "map", "filter", "tuple", "zip"})

BANNED_WORDS = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|X" r"XX)\b")

# Tests that cut across modules; test_a_more.py is named by test_a. Any other tests/a/test_b.py, or test_b_more.py, is
# about crdtstream/a/b.py, or in tests/ of that name about simulations/b.py, benchmarks/b.py, nemesis/b.py, docs/b.py or
# fuzz/b.py.
# fmt: off
CROSS_CUTTING = frozenset(
    {
        "test_admission", "test_containers", "test_clusters", "test_bounds", "test_bounds_random",
        "test_convergence", "test_crash", "test_demo", "test_facts", "test_garbage", "test_help",
        "test_monitoring", "test_pages", "test_differential", "test_processes", "test_real", "test_recovery",
        "test_redis_parity", "test_rot", "test_scenarios", "test_site", "test_state_transfer", "test_tables",
        "test_sessions", "test_group_properties", "test_group_delivery", "test_group_reset", "test_tidy", "test_wait",
        "test_words", "test_jobs", "test_troubles",
    }
)
# fmt: on


class Source:
    """One file, parsed when a rule asks for it."""

    def __init__(self, path: str, text: str) -> None:
        self.path = path
        self.text = text

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text) if self.path.endswith(".py") else ast.Module(body=[], type_ignores=[])

    @cached_property
    def nodes(self) -> list[ast.AST]:
        """Every node of the tree, walked once for all rules."""
        return list(ast.walk(self.tree))

    @property
    def module(self) -> list[str]:
        """`crdtstream/core/entries/block.py` -> crdtstream, core, block; a package is named by its directory."""
        parts = self.path.removesuffix(".py").split("/")
        return parts[:-1] if parts[-1] == "__init__" else parts

    @property
    def part(self) -> str:
        """The name that `LAYERS` knows the file by; empty outside the package."""
        module = self.module
        if module[0] != "crdtstream":
            return ""
        return module[1] if len(module) > 1 else "crdtstream"

    @property
    def is_pure(self) -> bool:
        return self.part in PURE and ".".join(self.module) not in FILES_OF_SETTINGS

    def fault(self, line: int, what: str) -> str:
        return f"{self.path}:{line}: {what}"


Rule = Callable[[Source], Iterator[str]]
BANNER = re.compile(r"#.*([-=#*~])\1{3}")


def imports(source: Source) -> Iterator[tuple[int, str]]:
    """Every module imported anywhere in the file, absolute; `from package import name` gives package.name."""
    package = source.module if source.path.endswith("/__init__.py") else source.module[:-1]
    for node in source.nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            prefix = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{prefix}.{alias.name}"


def long_functions(source: Source) -> Iterator[str]:
    for node in source.nodes:
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
    if not BANNER.search(source.text):
        return
    for token in tokenize.generate_tokens(io.StringIO(source.text).readline):
        if token.type == tokenize.COMMENT and BANNER.search(token.string):
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
            elif source.is_pure and any(f"{name}.".startswith(f"{module}.") for module in FILES_OF_SETTINGS):
                yield source.fault(line, f"{source.part} is pure and may not import {name}, which uses files")


def floors_of_replication(source: Source) -> Iterator[str]:
    """Imports of replication upward in its own folders, or of the clients of Redis, of whom it knows nothing."""
    own = Path(source.path).parts[2:3]
    for line, name in imports(source) if source.part == "replication" else ():
        target = name.split(".")[1:3]
        if target[:1] == ["connections"]:
            yield source.fault(line, "replication may not import connections")
        above = REPLICATION[REPLICATION.index(own[0]) + 1 :] if own[0] in REPLICATION else REPLICATION
        if target[:1] == ["replication"] and target[1:] and target[1] in above:
            yield source.fault(line, f"replication/{own[0]} may not import replication/{target[1]}")


def layer_fault(part: str, target: str) -> str:
    """Why `part` may not import `target`; empty when it may."""
    if part in CLIENTS:
        allowed = target in CLIENTS[part] or target in (part, "crdtstream")
        return "" if allowed else f"{part} is a client and may not import {target}"
    if target in CLIENTS and RANKS.get(part, 0) >= RANKS["demo"]:
        return ""
    for name in (part, target):
        if name not in RANKS:
            return f"{name} has no layer: give it one in {Path(__file__).name}"
    if part in PURE and target not in PURE and target != "crdtstream":
        return f"{part} is pure and may not import {target}"
    if part == target or RANKS[target] < RANKS[part]:
        return ""
    return f"{part} may not import {target}: imports go downward only"


def impure_imports(source: Source) -> Iterator[str]:
    if not source.is_pure:
        return
    allowed = PURE_LIBRARY | PURE_PACKAGES.get(source.part, frozenset()) | {"crdtstream"}
    for line, name in imports(source):
        known = name in PURE_NAMES or name.split(".")[0] in allowed
        if not known or "_pb2_grpc" in name:
            yield source.fault(line, f"{source.part} is pure and may not import {name}")


def impure_calls(source: Source) -> Iterator[str]:
    if not source.is_pure:
        return
    for node in source.nodes:
        name = called_name(node)
        if name in IMPURE_CALLS:
            assert isinstance(node, ast.Call)
            yield source.fault(node.lineno, f"{source.part} is pure and may not call {name}()")


def hash_order(source: Source) -> Iterator[str]:
    """Sets written down where their order becomes visible; a set behind a name is the reviewer's to find."""
    if not source.is_pure:
        return
    for node in source.nodes:
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
    if not is_compiled(source):
        return
    for function in source.nodes:
        if not isinstance(function, ast.FunctionDef):
            continue
        seen: dict[str, str] = {}
        for handler in ast.walk(function):
            if isinstance(handler, ast.ExceptHandler) and handler.name and handler.type is not None:
                kind = ast.unparse(handler.type)
                if seen.setdefault(handler.name, kind) != kind:
                    yield source.fault(handler.lineno, f"{handler.name} is {seen[handler.name]} already: rename it")


def coroutines(source: Source) -> Iterator[str]:
    """Compiled, the exception of a coroutine comes back in the next one."""
    for node in source.nodes if is_compiled(source) else ():
        if isinstance(node, ast.AsyncFunctionDef):
            yield source.fault(node.lineno, f"{node.name} is a coroutine, and setup.py compiles this module")


def is_compiled(source: Source) -> bool:
    one_by_one = {*[f"runtime/{name}" for name in compiled("RUNTIME")], *compiled("SHARED")}
    return source.part in compiled("FOLDERS") or source.path.removeprefix("crdtstream/") in one_by_one


@cache
def compiled(name: str) -> tuple[str, ...]:
    """The value of this constant of setup.py, which cannot be imported."""
    for node in source_of(ROOT / "setup.py").tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return tuple(ast.literal_eval(node.value))
    raise KeyError(name)


def private_access(source: Source) -> Iterator[str]:
    if "_pb2" not in source.path:
        for line, name in private_accesses(source.tree):
            yield source.fault(line, f"{name} is private to another class or module: give it a public name")


def simulated_imports(source: Source) -> Iterator[str]:
    for line, name in imports(source):
        parts = name.split(".")
        # A sweep runs on Spark, which is no part of what is simulated.
        if parts[:2] == ["crdtstream", "spark"] and source.path == "simulations/spark.py":
            continue
        if parts[0] == "crdtstream" and len(parts) > 1 and parts[1] not in SIMULATED:
            yield source.fault(line, f"simulations may not import crdtstream.{parts[1]}: layers 0-3 only")


def stray_tests(source: Source) -> Iterator[str]:
    path = Path(source.path)
    if not path.name.startswith("test_") or any(is_named(path.stem, name) for name in CROSS_CUTTING):
        return
    if not any(mirrors(path, module) for module in mirrored_modules(path.parts[1:-1])):
        yield source.fault(1, f"mirrors no module; a cross-cutting test is named in {Path(__file__).name}")


def mirrored_modules(folders: tuple[str, ...]) -> list[Path]:
    """The modules and packages that tests in this folder may be about."""
    homes = [ROOT / "crdtstream" / Path(*folders)]
    if folders[:1] in (("simulations",), ("benchmarks",), ("nemesis",), ("docs",), ("fuzz",), ("deploy",)):
        homes.append(ROOT / Path(*folders))
    return [path for home in homes if home.is_dir() for path in home.iterdir()]


def mirrors(test: Path, module: Path) -> bool:
    return is_named(test.stem, f"test_{module.stem}")


def is_named(stem: str, name: str) -> bool:
    return stem == name or stem.startswith(f"{name}_")


def sources(*folders: str, suffixes: tuple[str, ...] = (".py",)) -> Iterator[Source]:
    """Written files below these folders, in order; generated code is not written."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in suffixes and path.is_file() and "_pb2" not in path.name:
                yield source_of(path)


@cache
def source_of(path: Path) -> Source:
    """Read once, and parsed once, for all rules."""
    return Source(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8"))


PACKAGE = ("crdtstream",)
CODE = ("crdtstream", "pyspark_crdtstream", "simulations", "benchmarks", "nemesis", "fuzz", "docs")
WRITTEN = (*CODE, "tests")
EVERYTHING = (*CODE, "tests", "proto", "scripts")

RULES: list[tuple[Rule, tuple[str, ...]]] = [
    (long_functions, WRITTEN),
    (long_files, WRITTEN),
    (long_lines, EVERYTHING),
    (banned_words, EVERYTHING),
    (missing_docstrings, WRITTEN),
    (banners, WRITTEN),
    (upward_imports, PACKAGE),
    (floors_of_replication, PACKAGE),
    (impure_imports, PACKAGE),
    (impure_calls, PACKAGE),
    (hash_order, PACKAGE),
    (two_typed_errors, PACKAGE),
    (coroutines, PACKAGE),
    (private_access, (*PACKAGE, "simulations", "nemesis", "fuzz", "benchmarks", "docs")),
    (simulated_imports, ("simulations",)),
    (stray_tests, ("tests",)),
]


def circles(imported: dict[str, set[str]]) -> list[list[str]]:
    """Modules that import each other, by whatever way: what is left when those are taken away that import nothing more,
    or that nothing more imports.
    """
    left = {name: set(names) for name, names in imported.items()}
    before = -1
    while len(left) != before:
        before = len(left)
        wanted = {name for names in left.values() for name in names}
        left = {name: names & left.keys() for name, names in left.items() if names & left.keys() and name in wanted}
    return [[name, *sorted(names)] for name, names in sorted(left.items())]


def package_files() -> list[str]:
    """The files of the package, as paths from the root of the repository; without what Python leaves behind."""
    paths = [path for path in sorted((ROOT / "crdtstream").rglob("*")) if path.is_file()]
    return [path.relative_to(ROOT).as_posix() for path in paths if path.suffix in (".py", ".pyi", ".typed", ".txt")]


def misplaced_files(paths: list[str]) -> list[str]:
    """What is wrong with where these files lie: beside the folders, in a folder with too many, in one that is none."""
    modules: dict[str, list[str]] = {}
    faults: list[str] = []
    for path in paths:
        folder, _, name = path.rpartition("/")
        if folder == "crdtstream" and name not in TOP:
            faults.append(f"{path}: only {', '.join(sorted(TOP))} lie at the top of the package")
        if name.endswith(".py") and "_pb2" not in name:
            modules.setdefault(folder, []).append(name)
    for folder, names in modules.items():
        count = len(names) - ("__init__.py" in names)
        if count > FOLDER_MODULES_MAX and folder != FAMILIES:
            faults.append(f"{folder}: {count} modules, more than {FOLDER_MODULES_MAX}")
        if "__init__.py" not in names:
            faults.append(f"{folder}: no __init__.py")
    return faults


def modules_imported(*folders: str) -> dict[str, set[str]]:
    """Module -> modules, wherever the import stands: in a function, or for the type checker alone."""
    found = {".".join(source.module): source for source in sources(*folders)}
    imported: dict[str, set[str]] = {name: set() for name in found}
    for module, source in found.items():
        for _, name in imports(source):
            while name and name not in found:
                name = name.rpartition(".")[0]
            if name not in ("", module):
                imported[module].add(name)
    return imported
