"""The sample of a settings file: every setting with what it means, its unit and its default.

A prose comment begins with `# `, and a setting that is off with `#` alone; without that `#` it says its default, or an
example where there is none. What every region needs is on.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from textwrap import wrap

from crdtstream.settings.rewriting import toml
from crdtstream.settings.rows import AT_START
from crdtstream.settings.table import LIMIT_SETTINGS, LIMITS, NUMBERS, REGION_SETTINGS, TEXTS, Known

WIDTH = 100
HEAD = """\
# The settings of a region, for `crdtstream serve --config FILE`. Made by `crdtstream config sample`.
#
# Remove the # before a setting to change it from its default. A flag of `crdtstream serve` overrides
# a variable, and a variable overrides this file. The variable of a setting is CRDTSTREAM_ and its
# name in capitals, with underscores: CRDTSTREAM_REPLICATION_PORT.
#
# On SIGHUP a region reads this file again and applies what can change while it runs.
"""
LIMITS_HEAD = f"\n[{LIMITS}]\n"


def sample() -> str:
    settings, limits = "".join(groups_of(REGION_SETTINGS)), "".join(groups_of(LIMIT_SETTINGS))
    return HEAD + settings + LIMITS_HEAD + limits


def groups_of(all_known: tuple[Known, ...]) -> Iterator[str]:
    for group, members in groupby(all_known, key=lambda known: known.group):
        yield f"\n# {group}\n" + "".join(f"\n{lines_of(known)}" for known in members)


def lines_of(known: Known) -> str:
    """A setting: comments, and a line that is off unless every region needs it."""
    value = example_of(known) if known.default is None or known.is_required else known.default
    off = "" if known.is_required else "#"
    prose = "".join(f"# {line}\n" for line in wrap(" ".join(sentences(known)), WIDTH, break_on_hyphens=False))
    return f"{prose}{off}{known.key} = {toml(value)}\n"


def example_of(known: Known) -> object:
    return known.parse(known.row.example, known.key)


def sentences(known: Known) -> Iterator[str]:
    yield known.row.meaning
    if known.row.choices:
        yield f"One of {', '.join(known.row.choices)}."
    elif known.kind in (TEXTS, NUMBERS):
        yield f"A list, each {known.unit}."
    elif known.of_limits:
        size = f", {known.shown_default()}" if known.is_size and known.default else ""
        yield f"Unit: {known.unit}{size}."
    elif ".." in known.unit:
        yield f"{known.unit}."
    if known.row.change != AT_START:
        yield f"Changes take effect {known.row.change}."
