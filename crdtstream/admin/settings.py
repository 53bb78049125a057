"""What the options of `crdtstream admin` say, for its sub-commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Coroutine
from functools import cached_property
from typing import Any, TypeVar

import typer

from crdtstream.admin.regions import Regions
from crdtstream.admin.screen import screen
from crdtstream.observing.access import Access
from crdtstream.observing.reading import RegionReading

T = TypeVar("T")


class AdminSettings:
    """The options that sub-commands share. No region is asked before the sub-command is known to be right."""

    def __init__(
        self, context: typer.Context, nodes: list[str], access: Access, timeout_s: float, only: bool, as_json: bool
    ) -> None:
        self._context = context
        self._nodes = nodes
        self.access = access
        self.timeout_s = timeout_s
        self.only = only
        self.as_json = as_json
        self.console = screen()

    @property
    def nodes(self) -> list[str]:
        if not self._nodes:
            raise typer.BadParameter("name at least one region: --node HOST:PORT", param_hint="--node")
        return self._nodes

    @property
    def named(self) -> list[RegionReading]:
        """The named regions, of which nothing is known yet."""
        return [RegionReading(address) for address in self.nodes]

    @cached_property
    def regions(self) -> Regions:
        """The named regions and those that they announce."""
        return self._opened(not self.only)

    @cached_property
    def everywhere(self) -> Regions:
        """The named regions and those that they announce, even where only the named ones are to be asked."""
        return self._opened(True)

    @cached_property
    def first(self) -> Regions:
        """The named regions alone, of which the first carries out what is asked."""
        return self._opened(False)

    def _opened(self, finds_others: bool) -> Regions:
        regions = Regions(self.nodes, self.access, self.timeout_s, finds_others)
        self._context.call_on_close(regions.close)
        return regions


def state(context: typer.Context) -> AdminSettings:
    found = context.find_object(AdminSettings)
    assert found is not None
    return found


def print_json(value: dict[str, Any]) -> None:
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)
