"""A row of the command table: all that is declared about one command or subcommand, beside its function.

Dispatch checks a request against the row before the function runs, and everything that clients and documentation are
told derives from it: COMMAND INFO, DOCS and GETKEYS, the HELP of a container, the command reference.

`arity` includes the name and, as in Redis, is negative if it is a minimum. `syntax` describes the arguments in the
notation of `syntax.py`; without it there are none. `since` is the version of Redis that introduced the command, or of
crdtstream for a command of its own. `help` holds the lines of the container's HELP about a subcommand, word for word.

A container holds `subcommands`, named `parent|child`, in the order in which COMMAND tells them; they have its group.
HELP tells them by name, or in `help_order` where Redis has another order. If no subcommand is given, the container's
own function runs, if it has one.

Flags that dispatch obeys: `write` (rejected while the disk is full, and once the region departs), `frees` (frees room,
so it may use the reserve of a full disk), `denyoom` (rejected while memory is over its limit), `loading` (allowed
before this region serves), `no_auth` (allowed before AUTH), `no_multi` (rejected after MULTI), `unqueued` (runs at once
after MULTI), `skip_slowlog` (never in the slow log itself, though commands that it runs may be), `may_replicate` (waits
during CLIENT PAUSE WRITE, as what writes does). All other flags are only reported; a `readonly` command that names a
key also counts keyspace hits.

The ACL categories follow from flags and group, as in Redis; `categories` replaces what follows from the group.
`matching` are those by which rules find the row: its own, and those of its container.
`channels` says which arguments are channels that the caller publishes to or listens to.

Reference: Redis `COMMAND INFO`, `COMMAND DOCS`, and its commands' JSON files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from crdtstream.connections.syntax import arguments_of
from crdtstream.protocols import replies

# (context, client, argv) -> reply. Typed loosely to avoid an import cycle: contexts hold clients, clients transactions,
# and transactions commands.
Function = Callable[..., bytes | None]

FLAGS: Final = frozenset(
    (
        "admin",
        "allow_busy",
        "blocking",
        "connection",
        "denyoom",
        "fast",
        "frees",
        "loading",
        "may_replicate",
        "movablekeys",
        "no_async_loading",
        "no_auth",
        "no_multi",
        "noscript",
        "pubsub",
        "readonly",
        "skip_slowlog",
        "stale",
        "transaction",
        "unqueued",
        "write",
    )
)
# In the order in which Redis tells them. Those of other data types have no command here; rules may name them.
CATEGORIES: Final = (
    "keyspace",
    "read",
    "write",
    "set",
    "sortedset",
    "list",
    "hash",
    "string",
    "bitmap",
    "hyperloglog",
    "geo",
    "stream",
    "pubsub",
    "admin",
    "fast",
    "slow",
    "blocking",
    "dangerous",
    "connection",
    "transaction",
    "scripting",
)
OF_FLAGS: Final = {
    "write": ("write",),
    "readonly": ("read",),
    "admin": ("admin", "dangerous"),
    "pubsub": ("pubsub",),
    "fast": ("fast",),
    "blocking": ("blocking",),
}
OF_GROUPS: Final = {
    "generic": "keyspace",
    "stream": "stream",
    "connection": "connection",
    "transactions": "transaction",
    "scripting": "scripting",
}
GROUPS: Final = ("cluster", "connection", "generic", "pubsub", "scripting", "server", "stream", "transactions")
HELP: Final = b"HELP"
HELP_SUMMARY = "Returns helpful text about the different subcommands."


# What a user needs for a key, as bits.
READ: Final = 1
WRITE: Final = 2
NOT_A_KEY: Final = -1


class Keys:
    """Which arguments of a request are keys, and what the command does to them.

    Positions count from the name; `last` is negative if it counts from the end. All three numbers are 0 without keys,
    and if the keys are the first half of the arguments after `keyword`, which is searched from `keyword_from` on.

    Each key has its flags, and the last flags hold for all keys that follow. A key is read (RO), changed (RW),
    overwritten (OW) or removed (RM); in addition its value is used (access) or changed (update), or data is added
    (insert) or removed (delete). What is found like a key, and is none, is a `not_key`.

    What follows `word`, which is searched from `word_from` on, is a key too, to which the command lets data be added;
    key specifications do not tell it. A value may read like the word: then what follows it counts as a key, which only
    asks for more rights.
    """

    __slots__ = ("first", "flags", "keyword", "keyword_from", "last", "needs", "options", "step", "word", "word_from")

    def __init__(
        self,
        first: int,
        last: int,
        flags: Iterable[str],
        keyword: str = "",
        keyword_from: int = 0,
        options: dict[bytes, int] | None = None,
        word: str = "",
        word_from: int = 0,
    ) -> None:
        self.word = word.encode()
        self.word_from = word_from
        self.first = first
        self.last = last
        self.step = 1 if first else 0
        self.flags = [text.split() for text in flags]
        self.needs = [needs_of(words) for words in self.flags] + ([WRITE] if word else [])
        self.keyword = keyword.encode()
        self.keyword_from = keyword_from
        self.options = options or {}

    def positions(self, request: list[bytes]) -> Sequence[int]:
        """Where the keys of this request are; none if the keyword is missing."""
        found = self._positions(request)
        return [*found, *self._behind_word(request)] if self.word else found

    def _behind_word(self, request: list[bytes]) -> list[int]:
        return [at + 1 for at in range(self.word_from, len(request) - 1) if request[at].upper() == self.word]

    def _positions(self, request: list[bytes]) -> range:
        if self.keyword:
            return self._behind_keyword(request)
        if self.first == 0:
            return range(0)
        last = self.last if self.last >= 0 else len(request) + self.last
        return range(self.first, min(last + 1, len(request)))

    def _behind_keyword(self, request: list[bytes]) -> range:
        """The first half of the arguments behind the keyword. Options before it are skipped with their values, because
        a value may read like the keyword; what is no option ends the search, as it ends the command.
        """
        at = 1
        while at < len(request):
            word = request[at].upper()
            if word == self.keyword:
                return range(at + 1, at + 1 + (len(request) - at - 1) // 2)
            values = self.options.get(word, -1)
            if values < 0:
                break
            at += 1 + values
        return range(0)

    def need_at(self, index: int) -> int:
        """What a user needs for the key with this index among those of a request: READ, WRITE, both, or nothing."""
        return self.needs[min(index, len(self.needs) - 1)]


def needs_of(flags: list[str]) -> int:
    """What the flags of a key ask of a user. A key whose value is neither used nor changed only has to be among those
    that the user may name.
    """
    if "not_key" in flags:
        return NOT_A_KEY
    changed = "insert" in flags or "delete" in flags or "update" in flags
    return (READ if "access" in flags else 0) | (WRITE if changed else 0)


NO_KEYS: Final = Keys(0, 0, ())


def keys_at(first: int, *flags: str) -> Keys:
    """A key at this position, and one after it for each further text of flags."""
    return Keys(first, first + len(flags) - 1, flags)


def keys_from(first: int, flags: str) -> Keys:
    """All arguments from this position on are keys."""
    return Keys(first, -1, (flags,))


def keys_after(keyword: str, start: int, flags: str, options: dict[bytes, int]) -> Keys:
    """The first half of the arguments after a keyword, which stands at this position or later. `options` may stand
    before it, each with so many values.
    """
    return Keys(0, 0, (flags,), keyword, start, options)


class Channels:
    """Which arguments are channels that the caller publishes or listens to: from 1 to `last`, which is negative if it
    counts from the end, and 0 without any. A pattern is among what a user may listen to only literally.
    """

    __slots__ = ("are_patterns", "last")

    def __init__(self, last: int, are_patterns: bool = False) -> None:
        self.last = last
        self.are_patterns = are_patterns

    def positions(self, request: list[bytes]) -> range:
        return range(1, 1 + self.last if self.last >= 0 else len(request) + 1 + self.last)


NO_CHANNELS: Final = Channels(0)
CHANNEL_AT_1: Final = Channels(1)
CHANNELS_FROM_1: Final = Channels(-1)
PATTERNS_FROM_1: Final = Channels(-1, are_patterns=True)


class Command:
    """One command, or one subcommand, whose name is then `parent|child`."""

    __slots__ = (
        "arguments",
        "arity",
        "auth_needed",
        "categories",
        "channels",
        "denies_oom",
        "explicit_categories",
        "first_key",
        "flags",
        "frees",
        "function",
        "group",
        "has_one_key",
        "help",
        "keys",
        "loading_allowed",
        "matching",
        "multi_allowed",
        "name",
        "never_slow",
        "pausable",
        "queued",
        "reads_key",
        "since",
        "subcommands",
        "summary",
        "writes",
    )

    def __init__(
        self,
        name: str,
        function: Function | None = None,
        *,
        arity: int,
        flags: str = "",
        keys: Keys = NO_KEYS,
        channels: Channels = NO_CHANNELS,
        categories: str = "",
        since: str = "",
        group: str = "",
        summary: str = "",
        syntax: str = "",
        help: tuple[str, ...] = (),
        subcommands: list[Command] | None = None,
        help_order: str = "",
        counts_itself: bool = False,
    ) -> None:
        self.name = name
        self.function = function
        self.arity = arity
        self.flags = [*flags.split(), "movablekeys"] if keys.keyword else flags.split()
        self.keys = keys
        self.first_key = keys.first
        # Every request of this command has exactly this one.
        self.has_one_key = 0 < keys.first == keys.last < abs(arity) and not keys.word
        self.since = since
        self.group = group
        self.summary = summary
        self.arguments = arguments_of(syntax)
        self.help = help
        self.channels = channels
        self.explicit_categories = categories.split()
        self.subcommands = None if subcommands is None else self._adopted(subcommands, help_order)
        self.categories = self._categories()
        self.matching = frozenset(self.categories)
        for child in [] if subcommands is None else subcommands:
            # As in Redis, a rule on a category of the container covers its subcommands.
            child.matching = frozenset(child.categories) | self.matching
        self.writes = "write" in self.flags
        self.pausable = self.writes or "may_replicate" in self.flags
        self.frees = "frees" in self.flags
        self.loading_allowed = "loading" in self.flags
        self.auth_needed = "no_auth" not in self.flags
        self.denies_oom = "denyoom" in self.flags
        self.multi_allowed = "no_multi" not in self.flags
        self.queued = "unqueued" not in self.flags
        self.never_slow = "skip_slowlog" in self.flags
        self.reads_key = "readonly" in self.flags and keys.first > 0 and not counts_itself

    def _adopted(self, children: list[Command], help_order: str) -> dict[bytes, Command]:
        """The subcommands by their names in upper case. They get the group, and HELP gets its text."""
        found = {child.name.partition("|")[2].upper().encode(): child for child in children}
        for child in children:
            child.group = self.group
            child.categories = child._categories()
        if HELP in found and found[HELP].function is None:
            others = help_order.upper().encode().split() or sorted(name for name in found if name != HELP)
            assert len(others) == len(children) - 1, f"{self.name}: HELP leaves some out"
            told = [self, *[found[name] for name in others], found[HELP]]
            found[HELP].function = showing(help_reply(self.name, [line for row in told for line in row.help]))
        return found

    def _categories(self) -> list[str]:
        """The ACL categories, in their order. The group of a container counts for its subcommands only."""
        found = [category for flag in self.flags for category in OF_FLAGS.get(flag, ())]
        if "fast" not in self.flags:
            found.append("slow")
        if self.explicit_categories:
            found += self.explicit_categories
        elif self.subcommands is None and self.group in OF_GROUPS:
            found.append(OF_GROUPS[self.group])
        return [category for category in CATEGORIES if category in found]

    def accepts(self, count: int) -> bool:
        """True if the number of arguments, including the name, matches the arity."""
        return count == self.arity if self.arity >= 0 else count >= -self.arity

    def check(self) -> None:
        assert self.name == self.name.lower(), f"{self.name} is not lower case"
        assert self.function is not None or self.subcommands, f"{self.name} has neither a function nor subcommands"
        assert FLAGS.issuperset(self.flags), f"{self.name} has an unknown flag"
        assert set(CATEGORIES).issuperset(self.explicit_categories), f"{self.name} has an unknown category"
        assert self.summary.endswith(".") and self.since and self.group in GROUPS, f"{self.name} is not documented"
        for name, child in (self.subcommands or {}).items():
            assert child.name == f"{self.name}|{name.decode().lower()}", f"{child.name} is listed under {self.name}"
            child.check()


# HELP


def help_row(
    container: str,
    since: str,
    flags: str = "loading stale",
    line: str = "    Print this help.",
    categories: str = "",
) -> Command:
    """The subcommand HELP of a container, which gives it its function."""
    name, help = f"{container}|help", ("HELP", line)
    return Command(name, arity=2, flags=flags, categories=categories, since=since, summary=HELP_SUMMARY, help=help)


def help_reply(name: str, lines: Iterable[str]) -> bytes:
    head = f"{name.upper()} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"
    return replies.array([replies.simple(line.encode()) for line in (head, *lines)])


def showing(reply: bytes) -> Function:
    def show(context: object, client: object, argv: list[bytes]) -> bytes:
        return reply

    return show
