"""The options that all sub-commands of `crdtstream admin` share: given before a sub-command or behind it, by variables,
or in a file of profiles.

A profile is a table of a TOML file, named by `--profile`; `default` is used if it exists and none is named:

    [shop]
    nodes = ["east.shop.example:6379"]
    user = "operator"
    password_file = "/etc/crdtstream/operator.password"
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

PROFILES = "CRDTSTREAM_PROFILES"
DEFAULT = "default"
# The name of each key in a profile, and that of the parameter which it gives a default to.
KEYS = {
    "nodes": "node",
    "timeout": "timeout_s",
    "user": "user",
    "password_file": "password_file",
    "cacert": "cacert",
    "cert": "cert",
    "key": "key",
}


class AdminGroup(TyperGroup):
    """Takes its options wherever they stand."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, shared_first(args, self.params))


def shared_first(words: list[str], parameters: Iterable[Any]) -> list[str]:
    """Move the options of the group, with their values, in front of all else; what follows `--` is left alone."""
    takes_value = {
        name: not parameter.is_flag
        for parameter in parameters
        if parameter.param_type_name == "option" and parameter.name != "help"
        for name in parameter.opts
    }
    shared: list[str] = []
    others: list[str] = []
    left = list(words)
    while left and left[0] != "--":
        word = left.pop(0)
        name, equals, _ = word.partition("=")
        if name not in takes_value:
            others.append(word)
            continue
        shared.append(word)
        if takes_value[name] and not equals and left:
            shared.append(left.pop(0))
    return shared + others + left


# Profiles


def profiles_path() -> Path:
    named = os.environ.get(PROFILES)
    if named:
        return Path(named)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path.home() / ".config") / "crdtstream" / "profiles.toml"


def use_profile(context: typer.Context, name: str | None) -> str | None:
    """Let a profile give what neither an option nor a variable does."""
    context.default_map = {**(context.default_map or {}), **defaults_of(profiles_path(), name)}
    return name


def defaults_of(path: Path, name: str | None) -> dict[str, Any]:
    """The defaults of the parameters in this profile; none if no profile is named and there is no default one."""
    if name is None and not path.exists():
        return {}
    profiles = read_profiles(path)
    profile = profiles.get(name or DEFAULT)
    if profile is None and name is None:
        return {}
    if not isinstance(profile, dict):
        has = ", ".join(sorted(profiles)) or "none"
        raise typer.BadParameter(f"{path} has no profile {name!r}: choose one of those that it has ({has})")
    unknown = sorted(profile.keys() - KEYS.keys())
    if unknown:
        raise typer.BadParameter(f"{path}: a profile has no {unknown[0]!r}; it may have {', '.join(KEYS)}")
    return {KEYS[key]: value for key, value in profile.items()}


def read_profiles(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise typer.BadParameter(f"the profiles {path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise typer.BadParameter(f"the profiles {path} are no TOML: {error}") from error
