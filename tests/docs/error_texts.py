"""Every error text of the package, collected from its syntax trees, for the page *Troubleshooting*.

A text is collected from

- the arguments of `raise Kind(...)`, and of each call of an exception class or of a function that returns one or never;
- a string that begins with an error code of the Redis protocol, such as `ERR` or `WRONGPASS`, wherever it stands;
- what a function that returns `str | None` or `bytes | None` returns, if it is a sentence: why something is refused;
- a sentence that is given to a name for reasons (`REASONS`), by assignment or as an argument, and what the command line
  writes to standard error.

Constants, variables of a function and functions that make texts are followed. A part that is known only when the
program runs is shown as `…`.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from crdtstream.status.events import ERROR, GROUPS, WARNING

ROOT = Path(__file__).resolve().parent.parent.parent
UNKNOWN = "…"
DEPTH_MAX = 6
VARIANTS_MAX = 48
CODE = re.compile(
    r"-?(ERR|WRONGTYPE|WRONGPASS|NOAUTH|NOPERM|NOGROUP|BUSYGROUP|BUSYKEY|READONLY|LOADING|MISCONF|OOM|NOPROTO|NOTBUSY"
    r"|EXECABORT|NOSCRIPT|UNBLOCKED|CLUSTERDOWN|NOREPLICAS|NOMASTERLINK|TRYAGAIN|DENIED) "
)
REASONS = frozenset(
    (
        "departing",
        "error",
        "error_message",
        "failure",
        "loading",
        "objection",
        "problem",
        "problems",
        "reason",
        "refusal",
    )
)
REASON_NAMES = re.compile(r"reason|problem|unusable|refus|objection|waiting_for|wrong|^begin$|^abort$|verdict")
# Faults of the program; and those of a payload, of which RESTORE says only that it cannot be used.
UNSHOWN_KINDS = frozenset(("AssertionError", "KeyError", "NotImplementedError", "RuntimeError", "StopIteration")) | {
    "BadFooter",
    "DumpFault",
    "TooLarge",
}
# Parts of the package that say nothing to a user: generated code, and the tools of tests and demo.
SILENT = re.compile(r"_pb2|/scenarios/|/processes/")


class Found(NamedTuple):
    text: str
    place: str


class Module(NamedTuple):
    path: Path
    tree: ast.Module
    constants: dict[str, ast.expr]
    imports: dict[str, str]


def dotted(path: Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def modules() -> dict[str, Module]:
    paths = sorted((ROOT / "crdtstream").rglob("*.py"))
    return {dotted(path): module_of(path) for path in paths if not SILENT.search(path.as_posix())}


def module_of(path: Path) -> Module:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants: dict[str, ast.expr] = {}
    imports: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            imports.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            constants[node.targets[0].id] = node.value
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            constants[node.target.id] = node.value
    return Module(path, tree, constants, imports)


# Events of the log that an operator should look at.
WARNINGS = {event.name: event for _, events in GROUPS for event in events if event.level in (WARNING, ERROR)}
Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def functions() -> dict[str, list[tuple[str, Function]]]:
    """Functions and methods by their name; a name that several have means any of them."""
    found: dict[str, list[tuple[str, Function]]] = {}
    for name, module in modules().items():
        for node in ast.walk(module.tree):
            if isinstance(node, Function):
                found.setdefault(node.name, []).append((name, node))
    return found


@cache
def error_classes() -> frozenset[str]:
    """Names of the exceptions that the package defines."""
    classes = [n for m in modules().values() for n in ast.walk(m.tree) if isinstance(n, ast.ClassDef)]
    known = {"Exception", "ValueError", "RuntimeError", "OSError", "ImportError"}
    while new := {c.name for c in classes if known & {name_of(base) for base in c.bases}} - known:
        known |= new
    return frozenset(known - UNSHOWN_KINDS)


def name_of(node: ast.expr) -> str:
    """The last name of what is called or inherited."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


@cache
def makes_error(name: str) -> bool:
    """Whether a call of this name makes or raises an error."""
    if name in UNSHOWN_KINDS:
        return False
    returned = {ast.unparse(f.returns) for _, f in functions().get(name, []) if f.returns is not None}
    return name in error_classes() or bool(returned & (error_classes() | {"NoReturn"}))


@cache
def assigned(function: Function) -> dict[str, list[ast.expr]]:
    """What each variable of a function is given."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.setdefault(name, []).append(value)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                found.setdefault(name, []).append(value)
    return found


class Scope:
    """Where an expression stands: its module, its function, and how many calls have been followed to it."""

    def __init__(self, module: str, function: Function | None, depth: int = 0) -> None:
        self.module = module
        self.function = function
        self.depth = depth

    def texts(self, node: ast.expr) -> list[str]:
        """Every text that the expression may have; `UNKNOWN` for what is not known."""
        match node:
            case ast.Constant(value=str(value)):
                return [value]
            case ast.Constant(value=bytes(data)):
                return [data.decode("latin-1")]
            case ast.JoinedStr(values=values):
                return self.joined(*values)
            case ast.FormattedValue(value=value):
                return self.texts(value)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self.joined(left, right)
            case ast.BinOp(left=left, op=ast.Mod()):
                return [re.sub(r"%[sdcr]", UNKNOWN, text) for text in self.texts(left)]
            case ast.IfExp(body=body, orelse=other):
                return self.texts(body) + self.texts(other)
            case ast.BoolOp(values=values):
                return [text for value in values for text in self.texts(value)]
            case ast.Name() | ast.Attribute():
                return self.named(node)
            case ast.Call():
                return self.called(node)
        return [UNKNOWN]

    def joined(self, *parts: ast.expr) -> list[str]:
        whole = ["".join(texts) for texts in itertools.product(*[self.texts(part) for part in parts])]
        return whole if len(whole) <= VARIANTS_MAX else [UNKNOWN]

    def named(self, node: ast.Name | ast.Attribute) -> list[str]:
        if self.depth >= DEPTH_MAX:
            return [UNKNOWN]
        if isinstance(node, ast.Attribute):
            return self.of_module(name_of(node.value), node.attr)
        values = assigned(self.function).get(node.id) if self.function else None
        if values is None:
            return self.constant(node.id)
        inner = Scope(self.module, self.function, self.depth + 1)
        return [text for value in values for text in inner.texts(value)]

    def constant(self, name: str) -> list[str]:
        module = modules()[self.module]
        if name in module.constants and not name.startswith("__"):
            return Scope(self.module, None, self.depth + 1).texts(module.constants[name])
        home, _, original = module.imports.get(name, "").rpartition(".")
        if home in modules() and original in modules()[home].constants:
            return Scope(home, None, self.depth + 1).constant(original)
        return [UNKNOWN]

    def of_module(self, name: str, attribute: str) -> list[str]:
        home = modules()[self.module].imports.get(name, "")
        if home in modules() and attribute in modules()[home].constants:
            return Scope(home, None, self.depth + 1).constant(attribute)
        return [UNKNOWN]

    def called(self, node: ast.Call) -> list[str]:
        name = name_of(node.func)
        if makes_error(name):
            return [text for argument in node.args for text in self.texts(argument) if is_sentence(text)] or [UNKNOWN]
        if isinstance(node.func, ast.Attribute) and name in ("decode", "encode"):
            return self.texts(node.func.value)
        if isinstance(node.func, ast.Attribute) and name == "format":
            return [re.sub(r"\{[^}]*\}", UNKNOWN, text) for text in self.texts(node.func.value)]
        if isinstance(node.func, ast.Name) and self.depth < DEPTH_MAX:
            sentences = [text for text in self.returned(name) if is_sentence(text)]
            return sentences or [UNKNOWN]
        return [UNKNOWN]

    def returned(self, name: str) -> Iterator[str]:
        """The texts of a function that makes a text."""
        home, _, original = modules()[self.module].imports.get(name, f"{self.module}.{name}").rpartition(".")
        for module, function in functions().get(original, []):
            if module == home and function.returns is not None and returns_text(function):
                scope = Scope(module, function, self.depth + 1)
                for node in ast.walk(function):
                    if isinstance(node, ast.Return) and node.value is not None:
                        yield from scope.texts(node.value)


def returns_text(function: Function) -> bool:
    return function.returns is not None and bool(re.match(r"(str|bytes)\b", ast.unparse(function.returns)))


def gives_reason(function: Function) -> bool:
    """Whether it returns why something is refused or waits, or nothing."""
    returned = ast.unparse(function.returns) if function.returns is not None else ""
    if returned in ("str", "Iterator[str]"):
        return bool(REASON_NAMES.search(function.name))
    return returned in ("str | None", "bytes | None")


def is_sentence(text: str) -> bool:
    """Whether it has words of its own, and is no code or name."""
    words = re.findall(r"[A-Za-z]{3,}", CODE.sub("", text).replace(UNKNOWN, " "))
    return bool(words) and (len(words) > 1 or UNKNOWN in text) and " " in text.strip()


class Place(NamedTuple):
    """A node, with the innermost class and function that hold it, and whether it is a part of a text."""

    node: ast.AST
    owner: str
    function: Function | None
    is_part: bool


def places(tree: ast.Module) -> Iterator[Place]:
    waiting = [Place(tree, "", None, False)]
    while waiting:
        place = waiting.pop()
        yield place
        node, owner, function, is_part = place
        if isinstance(node, ast.ClassDef):
            owner = node.name
        elif isinstance(node, Function):
            function = node
        is_part = is_part or is_joined(node)
        waiting.extend(Place(child, owner, function, is_part) for child in ast.iter_child_nodes(node))


def is_joined(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add))


def said(place: Place) -> Iterator[ast.expr]:
    """The expressions that this node makes errors of."""
    match place.node:
        case ast.Raise(exc=ast.Call(func=func, args=args)) if name_of(func) not in UNSHOWN_KINDS:
            yield from args
        case ast.Call(func=func, args=[_, text]) if name_of(func) == "RefusalReply":  # Of a partitioned stream's home.
            yield text
        case ast.Call(func=func, args=args, keywords=keywords):
            if is_error(place, func) or is_warning(func, args) or any(word.arg == "err" for word in keywords):
                yield from args
            yield from (word.value for word in keywords if word.arg in REASONS)
        case ast.Assign(targets=[target], value=value) if name_of(target) in REASONS:
            yield value
        case ast.Return(value=ast.expr() as value) if place.function is not None and (
            gives_reason(place.function) or is_string_of_error(place)
        ):
            yield value
        case ast.Yield(value=ast.expr() as value) if place.function is not None and gives_reason(place.function):
            yield value


def is_error(place: Place, func: ast.expr) -> bool:
    """Whether a call of this makes an error: by its name, or as the first words of an exception class."""
    first_words = place.owner in error_classes() and ast.unparse(func) == "super().__init__"
    return first_words or makes_error(name_of(func))


def is_warning(func: ast.expr, args: list[ast.expr]) -> bool:
    """Whether it reports an event that an operator should look at."""
    events = {argument.value for argument in args if isinstance(argument, ast.Constant)}
    return name_of(func) in ("Notice", "warn") and bool(events & WARNINGS.keys())


def is_string_of_error(place: Place) -> bool:
    return place.owner in error_classes() and place.function is not None and place.function.name == "__str__"


def coded(place: Place) -> Iterator[ast.expr]:
    """A whole text, wherever it stands, of which the first word may be a code."""
    if isinstance(place.node, ast.Constant | ast.JoinedStr | ast.BinOp) and not place.is_part:
        yield place.node


def collected() -> Iterator[Found]:
    for name, module in modules().items():
        path = module.path.relative_to(ROOT)
        for place in places(module.tree):
            scope = Scope(name, place.function)
            texts = [(part, text) for part in said(place) for text in scope.texts(part)]
            texts += [(part, text) for part in coded(place) for text in scope.texts(part) if CODE.match(text)]
            yield from (Found(shown(text), f"{path}:{part.lineno}") for part, text in texts if is_sentence(text))


def shown(text: str) -> str:
    """As the page has it: on one line, and without what is known only at run time."""
    return re.sub(f"{UNKNOWN}(?:{UNKNOWN})+", UNKNOWN, " ".join(text.split())).strip()


@cache
def error_texts() -> dict[str, str]:
    """Each text, and the first place where it stands; no text that is only a part of another one."""
    found: dict[str, str] = {}
    for text, place in collected():
        found.setdefault(text, place)
    parts = {CODE.sub("", text) for text in found if CODE.match(text)}
    parts |= {text.removesuffix(f" {UNKNOWN}") for text in found if text.endswith(f" {UNKNOWN}")}
    return {text: place for text, place in found.items() if text not in parts}
