"""A row of the command table: what is checked before the function runs, and what COMMAND tells about it.

`arity` counts the name and is, as in Redis, negative where it is a minimum. Key positions count from the name;
`last_key` is negative where it counts from the end, and all three are 0 for a command without keys (or with keys that
move: flag `movablekeys`). Subcommands are keyed by their upper-case name; the command's own function, if it has one,
runs when none is named.

Flags that dispatch obeys: `write` (refused while the disk takes nothing), `denyoom` (refused while too much memory is
used), `loading` (runs before this region can serve), `no_auth` (runs before AUTH), `no_multi` (refused after MULTI),
`unqueued` (runs at once after MULTI), `skip_slowlog` (no slow command
itself, but what it runs may be). The others are only told; of `readonly` ones that name a key, hits are counted.

Reference: Redis `COMMAND INFO`.
"""

from __future__ import annotations

from collections.abc import Callable

from crdtstream.commands.context import Client, Context, Reply

Function = Callable[[Context, Client, list[bytes]], Reply]


class Command:
    """One command, or one subcommand, whose name is then `parent|child`."""

    __slots__ = (
        "arity",
        "auth_needed",
        "denies_oom",
        "first_key",
        "flags",
        "function",
        "key_step",
        "last_key",
        "loading_allowed",
        "multi_allowed",
        "name",
        "never_slow",
        "queued",
        "reads_key",
        "subcommands",
        "writes",
    )

    def __init__(
        self,
        name: str,
        arity: int,
        flags: tuple[str, ...],
        first_key: int,
        last_key: int,
        key_step: int,
        function: Function | None,
        subcommands: dict[bytes, Command] | None = None,
    ) -> None:
        self.name = name
        self.arity = arity
        self.flags = flags
        self.first_key = first_key
        self.last_key = last_key
        self.key_step = key_step
        self.function = function
        self.subcommands = subcommands
        self.writes = "write" in flags
        self.loading_allowed = "loading" in flags
        self.auth_needed = "no_auth" not in flags
        self.denies_oom = "denyoom" in flags
        self.multi_allowed = "no_multi" not in flags
        self.queued = "unqueued" not in flags
        self.never_slow = "skip_slowlog" in flags
        self.reads_key = "readonly" in flags and first_key > 0

    def accepts(self, count: int) -> bool:
        """Whether so many arguments, the name included, are right."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def check(self) -> None:
        assert self.name == self.name.lower(), f"{self.name} is not lower case"
        assert self.function is not None or self.subcommands, f"{self.name} does nothing"
        assert (self.first_key == 0) == (self.key_step == 0), (
            f"{self.name}: keys without a step, or a step without keys"
        )
        for name, child in (self.subcommands or {}).items():
            assert child.name == f"{self.name}|{name.decode().lower()}", f"{child.name} under {self.name}"
            child.check()
