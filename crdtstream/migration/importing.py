"""Copies streams into a region, and goes on where an interrupted import stopped.

Entries keep their IDs (CRDT.IMPORT). A repeated import begins behind the last entry that both servers have, and adds no
entry twice, so it also brings what was added to the source meanwhile. With `whole`, it begins at the first entry,
because entries may be missing in between. A group that the region has is left as it is, because its consumers may have
moved already; `replace_groups` makes it as it is in the source.

A group is created in one transaction with its pending entries and properties: an interruption leaves it out or leaves
it whole. A stream gets the properties of the source unless it has any of its own; with `whole` it gets none, because
they would remove the old entries that are wanted. What of them the region cannot take is told, and the rest is copied:
a dead-letter key whose hash slot is another than that of the stream, or a region that the cluster does not have. The
names of adds (IDMP) cannot be read from a server, so they are counted alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from crdtstream.migration.servers import is_cluster
from crdtstream.migration.source import (
    START,
    MigrationError,
    SourceGroup,
    State,
    groups_of,
    limits_of,
    mapping,
    pages,
    state_of,
    told_by_region,
)
from crdtstream.migration.statements import (
    DELIVERIES_MAX,
    IMPORT,
    LETTERS,
    PLAIN,
    UNLIMITED,
    Statement,
    adding,
    expiring,
    grouping,
    is_set,
    limiting,
    line_of,
    ruling,
    settling,
    shown_name,
)

ADMISSION_S = 60.0
RETRY_S = 0.2


@dataclass
class Imported:
    """What was written for one stream; `kept` counts the groups that were there, `gone` the pending entries whose entry
    the source has no more, `names` the adds that the source knows by a name, which stay behind. `unset` says of each
    group which properties it lacks, and what to do.
    """

    entries: int = 0
    groups: int = 0
    kept: int = 0
    pending: int = 0
    gone: int = 0
    names: int = 0
    unset: list[str] = field(default_factory=list)


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

    def run(self, key: bytes, name: bytes = b"", done: Imported | None = None) -> Imported:
        """Copy one stream; it gets another name if one is given. `done` is returned, and known after an error, too."""
        # Imported only here: a region starts without it, and sooner.
        from redis import RedisError

        done = Imported() if done is None else done
        name = name or key
        try:
            self._copy_entries(key, name, done)
            state = state_of(self._source, key)
            done.names = state.names
            self._copy_state(name, state)
            for group in groups_of(self._source, key):
                self._copy_group(name, group, done)
            if not self._whole:
                self._copy_limits(key, name)
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
                self._compare_rules(key, group, done)
                return
            self._target.execute_command("XGROUP", "DESTROY", key, group.name)
        with_letters = self._can_take_letters(key, group, done)
        created, rules = [*grouping(key, group)], ruling(key, group, with_letters)
        replies = self._create(created, rules)
        claimed = replies[len(created) - len(group.pending) : len(created)]
        for rule, reply in zip(rules, replies[len(created) :], strict=True):
            if isinstance(reply, Exception):
                text = f"its properties were not set ({reply}): set what fits this cluster ({line_of(rule)})"
                done.unset.append(told(key, group, text))
        done.groups += 1
        done.pending += sum(map(bool, claimed))
        done.gone += sum(not reply for reply in claimed)

    def _compare_rules(self, key: bytes, group: SourceGroup, done: Imported) -> None:
        """Tell how a group that is kept differs: an import that was interrupted may have told nobody."""
        here = told_by_region(self._target, "CRDT.GROUP", "GET", key, group.name)
        source = group.properties
        if source and any(here.get(name) != source.get(name) for name in (*PLAIN, DELIVERIES_MAX)):
            rules = " ".join(map(line_of, ruling(key, group, self._can_take_letters(key, group, done))))
            wanted = f"set them ({rules})" if rules else "give it none"
            text = f"it has other properties than in the source: {wanted}, or repeat this with --replace-groups"
            done.unset.append(told(key, group, text))

    def _can_take_letters(self, key: bytes, group: SourceGroup, done: Imported) -> bool:
        letters = group.properties.get(LETTERS)
        if not letters or is_beside(key, letters) or not is_cluster(self._target):
            return True
        old, new = shown_name(letters), shown_name(b"{%b}%b" % (tag_of(key), letters))
        limit = f"MAXDELIVERIES {group.properties[DELIVERIES_MAX]}"
        beside = line_of(["CRDT.GROUP", "SET", key, group.name, limit, "DEADLETTER", new])
        text = (
            f"{limit} and DEADLETTER {old} were left out, because the keys {shown_name(key)} and {old} have different"
            f" hash slots, and the region has several shards: choose a key with the same hash tag ({beside}); what is"
            f" in {old} stays there"
        )
        done.unset.append(told(key, group, text))
        return False

    def _copy_limits(self, key: bytes, name: bytes) -> None:
        """As they are in the source, unless the region has its own."""
        statements = limiting(name, limits_of(self._source, key))
        if statements and not is_set(limits_of(self._target, name), UNLIMITED):
            send(self._target, statements)

    def _has_group(self, key: bytes, name: bytes) -> bool:
        return any(mapping(row)[b"name"] == name for row in self._target.execute_command("XINFO", "GROUPS", key))

    def _create(self, statements: list[Statement], rules: list[Statement]) -> list[Any]:
        """Run the statements as one transaction, in which those of `rules` may be refused; a region that has just
        started may have to be admitted first.
        """
        from redis.exceptions import ResponseError, TryAgainError

        end_s = time.monotonic() + ADMISSION_S
        while True:
            *queued, ran = send(self._target, [["MULTI"], *statements, *rules, ["EXEC"]], errors=True)
            outcome = [ran] if isinstance(ran, Exception) else ran
            replies = [*queued, *outcome[: len(statements)]]
            failed = next((reply for reply in replies if isinstance(reply, ResponseError)), None)
            if failed is None:
                return list(outcome)
            if not isinstance(outcome[0], TryAgainError) or time.monotonic() > end_s:
                raise failed
            time.sleep(RETRY_S)


def told(key: bytes, group: SourceGroup, text: str) -> str:
    return f"stream {shown_name(key)}, group {shown_name(group.name)}: {text}"


def is_beside(key: bytes, other: bytes) -> bool:
    """True if the two keys have the same hash slot."""
    # Imported only here: a region starts without it, and sooner.
    from redis.crc import key_slot

    return key_slot(key) == key_slot(other)


def tag_of(key: bytes) -> bytes:
    """What of a key decides its hash slot."""
    tag, end, _ = key.partition(b"{")[2].partition(b"}")
    return tag if tag and end else key


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
