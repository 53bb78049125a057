"""The flags of `crdtstream serve`: one for each setting that is no secret, made from the table of settings.

A flag that is not given has no value, so that it hides neither a variable nor the file. Values stay texts, and are read
as those of variables are.

Typer takes half a millisecond to declare a flag and to find that it was not given, a start a twentieth of a second for
all of them. So only flags are declared that the command line names, as long as it names nothing else: help, completion
and the error of a flag that does not exist show all.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from crdtstream.settings.sharding import RANGES
from crdtstream.settings.table import KNOWN, NUMBERS, SHARDS, SWITCH, TEXTS, Known

CliCommand = Callable[..., None]
# Flags whose value may be left out, and what they mean without.
SWITCHED = {
    name: (known.flag, text)
    for known in KNOWN.values()
    if known.kind == SHARDS
    for name, text in ((known.flag, "yes"), (known.opposite, "no"))
}


def with_setting_flags(words: Sequence[str]) -> Callable[[CliCommand], CliCommand]:
    """Give a command a flag for each setting that matters to the words of this command line."""

    def with_flags(command: CliCommand) -> CliCommand:
        own = inspect.signature(command, eval_str=True)
        named = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
        names = {f"--{each.name}" for each in named}
        flags = [parameter_of(known) for known in settings_of(words, command.__name__, names)]
        command.__signature__ = own.replace(parameters=[*named, *flags])  # type: ignore[attr-defined]
        return command

    return with_flags


def settings_of(words: Sequence[str], command: str, others: set[str]) -> list[Known]:
    """Those that the words name, if they are this command with flags of settings and these others alone; else all."""
    known = [known for known in KNOWN.values() if known.flag]
    if not words or words[0] != command:
        return known
    names = {word.partition("=")[0] for word in words[1:] if word.startswith("-")}
    named = [each for each in known if names.intersection(names_of(each))]
    strange = names.difference(others, *[names_of(each) for each in named])
    return known if strange else named


def names_of(known: Known) -> tuple[str, ...]:
    return (known.flag, known.opposite) if known.opposite else (known.flag,)


def parameter_of(known: Known) -> inspect.Parameter:
    """What Typer makes an option of."""
    kind: Any = {SWITCH: bool, TEXTS: list[str], NUMBERS: list[str]}.get(known.kind, str)
    return inspect.Parameter(
        known.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option_of(known)]
    )


def option_of(known: Known) -> Any:
    choices = known.row.choices
    return typer.Option(
        "/".join(names_of(known)) if known.kind == SWITCH else known.flag,
        help=help_of(known),
        metavar=metavar_of(known),
        autocompletion=completion_of(choices) if choices else None,
        show_default=False,
        rich_help_panel=f"Limits: {known.group}" if known.of_limits else known.group,
    )


def metavar_of(known: Known) -> str | None:
    if known.kind == SWITCH:
        return None
    shown = known.unit if known.row.choices else known.unit.upper()
    return f"[{shown}]" if known.kind == SHARDS else shown


class SettingsCommand(TyperCommand):
    """A command with flags of settings, of which a switch may have the numbers of shards behind it: Typer knows no flag
    whose value may be left out.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, spelled_out(args))


def spelled_out(words: Sequence[str]) -> list[str]:
    """These words, with a value for each such switch."""
    found: list[str] = []
    for word, following in pairwise([*words, ""]):
        flag, text = SWITCHED.get(word, ("", ""))
        has_value = text == "yes" and RANGES.fullmatch(following)
        found.append(f"{flag}={text}" if flag and not has_value else word)
    return found


def help_of(known: Known) -> str:
    """The meaning, and the default with its unit."""
    parts = [known.row.meaning.replace("`", "")]
    if known.kind in (TEXTS, NUMBERS):
        parts.append("May be repeated.")
    default = known.shown_default()
    if known.is_required:
        parts.append("Required.")
    elif default:
        unit = f" {known.unit}" if known.of_limits and not default.endswith("iB") else ""
        parts.append(f"Default: {default}{unit}.")
    return " ".join(parts)


def completion_of(choices: tuple[str, ...]) -> Callable[[str], list[str]]:
    """What a shell may complete the value to."""

    def beginning_with(incomplete: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(incomplete)]

    return beginning_with
