"""One word for one thing: names of classes, aliases and functions, and the words of the glossary."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pytest

from tests.tidy import ROOT, Source, sources

# What runs beside a region (gateway, Spark, administration, demo) may use a name of it again; all else is the engine.
BESIDE = frozenset(
    ["admin", "cli", "client", "dashboard", "demo", "migration", "observing", "oci", "processes", "scenarios", "spark"]
)
SHARED_MAX = 25
# Names that several rooms share because they mean the same there.
SHARED = {
    "Access": "how a client of the public ports reaches a region",
    "Array": "a column of pyarrow, which has no types",
    "AsJson": "the option --json",
    "AuthorityOption": "the option --ca",
    "BulkError": "an error of the bulk port, at its server and its client",
    "CertificateOption": "the option --cert",
    "Consumer": "a consumer of a group",
    "Entry": "an entry as a client gets it",
    "Group": "a consumer group",
    "PasswordFileOption": "the option --password-file",
    "Progress": "a callback that shows how far a job is",
    "Region": "one region, for a client of it",
    "Regions": "all regions that a client knows",
    "Told": "a callback that shows how far a backup is",
    "UserOption": "the option --user",
}
GLOSSARY = ROOT / "docs" / "glossary.md"
# Verbs of a function that do not say what it does; the glossary has those that do.
VAGUE = frozenset(["hear", "heed", "note", "settle", "take", "tell"])
# `take_command`, `take_over`: what is taken says more.
VAGUE_FIRST = VAGUE - {"take"}


def names_of(source: Source) -> list[str]:
    """The classes of a module, and its aliases of types."""
    names = []
    for node in source.tree.body:
        if isinstance(node, ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not is_variable(node.value):
            name = node.targets[0].id
            if name[0].isupper() and not name.isupper():
                names.append(name)
    return names


def is_variable(value: ast.expr) -> bool:
    """A type variable is private to its module, whatever it is called."""
    return isinstance(value, ast.Call) and ast.unparse(value.func) in ("TypeVar", "ParamSpec")


@cache
def homes() -> dict[str, list[str]]:
    """Where each name is defined: the parts of the package, one for each definition."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for source in sources("crdtstream"):
        for name in names_of(source):
            found[name].append(source.part)
    return dict(found)


def test_a_name_of_the_engine_is_defined_once() -> None:
    twice = {name: parts for name, parts in homes().items() if sum(part not in BESIDE for part in parts) > 1}
    assert not twice, f"two things have one name; use the field's term, or say what it holds: {twice}"


def test_verbs_say_what_is_done() -> None:
    found = [source.fault(node.lineno, node.name) for source, node in functions() if is_vague(node.name)]
    assert not found, "say what is done, with a verb of the glossary: record, receive, drain, parse, publish ..."


def functions() -> Iterator[tuple[Source, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for source in sources("crdtstream", "simulations", "benchmarks", "fuzz", "nemesis"):
        for node in source.nodes:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield source, node


def is_vague(name: str) -> bool:
    words = name.strip("_").split("_")
    return words[0] in (VAGUE if len(words) == 1 else VAGUE_FIRST)


@pytest.mark.parametrize(
    ("name", "vague"), [("_take", True), ("note_add", True), ("take_over", False), ("notes", False)]
)
def test_which_verbs_are_vague(name: str, vague: bool) -> None:
    assert is_vague(name) is vague


def test_a_shared_name_means_the_same() -> None:
    shared = {name for name, parts in homes().items() if len(parts) > 1}
    assert shared == SHARED.keys(), "say in SHARED why rooms share a name, or rename one of them"
    assert len(shared) <= SHARED_MAX


def words_of_glossary() -> list[str]:
    rows = re.findall(r"^\| ([^|]+) \|", GLOSSARY.read_text(encoding="utf-8"), re.MULTILINE)
    return [word for word in rows if word not in ("word", "---")]


@cache
def text_of_code() -> str:
    found = sources("crdtstream", "simulations", "nemesis")
    return re.sub(r"[^a-z]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", " ".join(one.text for one in found)).lower())


@pytest.mark.parametrize("word", words_of_glossary())
def test_the_code_uses_the_words_of_the_glossary(word: str) -> None:
    plural = {f"{word}s", f"{word}es", f"{word.removesuffix('y')}ies"}
    assert any(f" {form} " in text_of_code() for form in (word, *sorted(plural))), f"no code uses the word {word!r}"


def test_the_glossary_has_a_word_once() -> None:
    words = words_of_glossary()
    assert len(words) > 100 and len(words) == len({*words})


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("class A:\n    class B: ...\n", ["A"]),
        ("Row = int\na = 1\nLIMIT = 3\n", ["Row"]),
        ("T = TypeVar('T')\n", []),
        ("def f():\n    A = 1\n", []),
    ],
)
def test_names(text: str, names: list[str]) -> None:
    assert names_of(Source("crdtstream/core/a.py", text)) == names
