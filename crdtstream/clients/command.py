"""A row of the command table: what is checked before the function runs, and what COMMAND reports about it.

`arity` includes the name and, as in Redis, is negative if it is a minimum. Key positions count from the name;
`last_key` is negative if it counts from the end. All three key numbers are 0 for a command without keys, or with keys
at varying positions (flag `movablekeys`). Subcommands are keyed by their upper-case name; if no subcommand is given,
the command's own function runs, if it has one.

Flags that dispatch obeys: `write` (rejected while the disk is full), `denyoom` (rejected while memory is
over its limit), `loading` (allowed before this region serves), `no_auth` (allowed before AUTH), `no_multi` (rejected
after MULTI), `unqueued` (runs at once after MULTI), `skip_slowlog` (never in the slow log itself, though commands that
it runs may be). All other flags are only reported; a `readonly` command that names a key also counts keyspace hits.

Reference: Redis `COMMAND INFO`.
"""

from __future__ import annotations

from collections.abc import Callable

# (context, client, argv) -> reply. Typed loosely to avoid an import cycle: contexts hold clients, clients transactions,
# and transactions commands.
Function = Callable[..., bytes | None]


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
        """True if the number of arguments, including the name, matches the arity."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def check(self) -> None:
        assert self.name == self.name.lower(), f"{self.name} is not lower case"
        assert self.function is not None or self.subcommands, f"{self.name} has neither a function nor subcommands"
        assert (self.first_key == 0) == (self.key_step == 0), (
            f"{self.name}: a first key and a key step must come together"
        )
        for name, child in (self.subcommands or {}).items():
            assert child.name == f"{self.name}|{name.decode().lower()}", f"{child.name} is listed under {self.name}"
            child.check()
