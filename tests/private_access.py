"""Which names beginning with an underscore a module uses that are not its own.

A private field or method belongs to the class whose body names it: `self._x` is always allowed, `other._x` only within
such a class, where `other` is usually of the same one. A private function or class belongs to its module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

OWN = frozenset({"self", "cls"})


def private_accesses(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and text of each use of a private name of another class, or of another module."""
    waiting: list[tuple[ast.AST, frozenset[str]]] = [(tree, frozenset())]
    while waiting:
        node, known = waiting.pop()
        if isinstance(node, ast.ClassDef):
            known |= named_in(node)
        elif isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node.value):
            if node.attr not in known:
                yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names if is_private(alias.name))
        waiting.extend((child, known) for child in ast.iter_child_nodes(node))


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def is_own(value: ast.expr) -> bool:
    """Whether it is `self`, `cls` or `super()`."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in OWN


def named_in(body: ast.ClassDef) -> frozenset[str]:
    """The methods of a class, and the attributes that it names: in its body, or as those of `self` or `cls`."""
    found: set[str] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and is_own(node.value):
            found.add(node.attr)
        elif isinstance(node, ast.Name):
            found.add(node.id)
    return frozenset(found)
