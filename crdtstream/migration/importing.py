"""Copies streams into a region, and goes on where an interrupted import stopped.

Entries keep their IDs (CRDT.IMPORT). A repeated import begins behind the last entry that both servers have, and adds no
entry twice, so it also brings what was added to the source meanwhile. With `whole`, it begins at the first entry,
because entries may be missing in between. A group that the region has is left as it is,
because its consumers may have moved already; `replace_groups` makes it as it is in the source.

A group is created in one transaction with its pending entries: an interruption leaves it out or leaves it whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from crdtstream.migration.source import START, MigrationError, SourceGroup, State, groups_of, mapping, pages, state_of
from crdtstream.migration.statements import IMPORT, Statement, adding, expiring, grouping, settling

ADMISSION_S = 60.0
RETRY_S = 0.2


@dataclass
class Imported:
    """What was written for one stream; `kept` counts the groups that were there, `gone` the pending entries whose entry
    the source has no more.
    """

    entries: int = 0
    groups: int = 0
    kept: int = 0
    pending: int = 0
    gone: int = 0


class Import:
    """From one server into one region; `advance` is told of entries that were read from the source."""

    def __init__(
        self,
        source: Any,
        target: Any,
        page: int,
        replace_groups: bool,
        advance: Callable[[int], None],
        whole: bool = False,
    ) -> None:
        self._source = source
        self._target = target
        self._page = page
        self._replace_groups = replace_groups
        self._advance = advance
        self._whole = whole

    def run(self, key: bytes, name: bytes = b"") -> Imported:
        """Copy one stream; it gets another name if one is given."""
        # Imported only here: a region starts without it, and sooner.
        from redis import RedisError

        done = Imported()
        name = name or key
        try:
            self._copy_entries(key, name, done)
            self._copy_state(name, state_of(self._source, key))
            for group in groups_of(self._source, key):
                self._copy_group(name, group, done)
        except RedisError as error:
            raise MigrationError(f"stream {key!r} is not complete: {error}") from error
        return done

    def _copy_entries(self, key: bytes, name: bytes, done: Imported) -> None:
        for page in pages(self._source, key, self._resume_after(key, name), self._page):
            replies = send(self._target, [adding(IMPORT, name, entry) for entry in page])
            done.entries += sum(replies)
            self._advance(len(page))

    def _resume_after(self, key: bytes, name: bytes) -> bytes:
        """Return the last ID that the region has, if the source has it as well; otherwise, or for the whole stream, the
        start.
        """
        last = self._target.execute_command("XREVRANGE", name, "+", "-", "COUNT", 1)
        if not last or self._whole:
            return START
        shared = self._source.execute_command("XRANGE", key, last[0][0], last[0][0])
        return bytes(last[0][0]) if shared else START

    def _copy_state(self, key: bytes, state: State) -> None:
        known = self._target.execute_command("XREVRANGE", key, "+", "-", "COUNT", 1)
        if known and is_above(known[0][0], state.last_id):
            # Written to in the region since: its own last ID and counts hold.
            return
        # XSETID needs a key: an empty stream comes with its first group, or is made for a moment.
        send(self._target, [*self._placing(key), settling(key, state), *expiring(key, state)])

    def _placing(self, key: bytes) -> list[Statement]:
        if self._target.execute_command("EXISTS", key):
            return []
        return [[IMPORT, key, "0-1", "f", "v"], ["XDEL", key, "0-1"]]

    def _copy_group(self, key: bytes, group: SourceGroup, done: Imported) -> None:
        if self._has_group(key, group.name):
            if not self._replace_groups:
                done.kept += 1
                return
            self._target.execute_command("XGROUP", "DESTROY", key, group.name)
        replies = self._create(list(grouping(key, group)))
        claimed = replies[len(replies) - len(group.pending) :]
        done.groups += 1
        done.pending += sum(map(bool, claimed))
        done.gone += sum(not reply for reply in claimed)

    def _has_group(self, key: bytes, name: bytes) -> bool:
        return any(mapping(row)[b"name"] == name for row in self._target.execute_command("XINFO", "GROUPS", key))

    def _create(self, statements: list[Statement]) -> list[Any]:
        """Run the statements as one transaction; a region that has just started may have to be admitted first."""
        from redis.exceptions import ResponseError, TryAgainError

        end_s = time.monotonic() + ADMISSION_S
        while True:
            replies = send(self._target, [["MULTI"], *statements, ["EXEC"]], errors=True)
            outcome = replies[-1] if not isinstance(replies[-1], Exception) else [replies[-1]]
            failed = next((reply for reply in outcome if isinstance(reply, ResponseError)), None)
            if failed is None:
                return list(outcome)
            if not isinstance(outcome[0], TryAgainError) or time.monotonic() > end_s:
                raise failed
            time.sleep(RETRY_S)


def send(client: Any, statements: list[Statement], errors: bool = False) -> list[Any]:
    """Send the commands in one go and return their replies; with `errors`, error replies are among them."""
    pipeline = client.pipeline(transaction=False)
    for statement in statements:
        pipeline.execute_command(*statement)
    return list(pipeline.execute(raise_on_error=not errors))


def is_above(one: bytes, other: bytes) -> bool:
    return parts_of(one) > parts_of(other)


def parts_of(entry_id: bytes) -> tuple[int, int]:
    ms, _, seq = entry_id.partition(b"-")
    return int(ms), int(seq)
