"""The flags of `crdtstream serve`: one for each setting that is no secret, made from the table of settings.

A flag that is not given has no value, so that it hides neither a variable nor the file. Values stay texts, and are read
as those of variables are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from crdtstream.known_settings import KNOWN, NUMBERS, SWITCH, TEXTS, Known

Command = Callable[..., None]


def with_setting_flags(command: Command) -> Command:
    """Give a command a flag for each setting, between its own first options and `check`."""
    own = inspect.signature(command, eval_str=True)
    named = [each for each in own.parameters.values() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    flags = [parameter_of(known) for known in KNOWN.values() if known.flag]
    command.__signature__ = own.replace(parameters=[*named, *flags])  # type: ignore[attr-defined]
    return command


def parameter_of(known: Known) -> inspect.Parameter:
    """What Typer makes an option of."""
    kind: Any = {SWITCH: bool, TEXTS: list[str], NUMBERS: list[str]}.get(known.kind, str)
    return inspect.Parameter(
        known.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option_of(known)]
    )


def option_of(known: Known) -> Any:
    switch = known.kind == SWITCH
    choices = known.row.choices
    return typer.Option(
        f"{known.flag}/--no-{known.name}" if switch else known.flag,
        help=help_of(known),
        metavar=None if switch else known.unit if choices else known.unit.upper(),
        autocompletion=completion_of(choices) if choices else None,
        show_default=False,
        rich_help_panel=f"Limits: {known.group}" if known.of_limits else known.group,
    )


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
