"""One set of permissions: which commands, on which keys, with which channels.

Rules on commands are kept as they were given, and the last one that matches a command decides; `allows_all` decides
for what no rule matches. A new rule replaces earlier ones on the same command or category, and on its subcommands, so
the list stays short and its order still decides. Verdicts are remembered, since the rules of a user rarely change.

Reference: `ACLSetSelector`, `ACLUpdateCommandRules` and `ACLSelectorCheckCmd` of Redis.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from crdtstream.connections.command import CATEGORIES, READ, WRITE, Command
from crdtstream.protocols.glob import matches, tokens_of
from crdtstream.protocols.requests import split_arguments

BLANKS: Final = b" \t\n\v\f\r\0"
SPECIAL: Final = b"()\"'\\"
UNKNOWN: Final = "Unknown command or category name in ACL"
SYNTAX: Final = "Syntax error"
AFTER_ALL_KEYS: Final = (
    "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not have any effect."
    " Try 'resetkeys' to start with an empty list of patterns"
)
AFTER_ALL_CHANNELS: Final = (
    "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does not have any effect."
    " Try 'resetchannels' to start with an empty list of channels"
)
CATEGORY_NAMES: Final = frozenset(CATEGORIES)
FIRST_ARGUMENT: Final = "Allowing first-arg of a subcommand is not supported"

# The command or subcommand with a full name such as `xadd` or `xgroup|create`.
Lookup = Callable[[bytes], Command | None]


class RuleError(ValueError):
    """A rule that cannot be applied; the text is Redis's."""


class Rule:
    """`+name`, `-name`, `+@category` or `-@category`; with an `argument`, the command is allowed with that first
    argument only.
    """

    __slots__ = ("allows", "argument", "category", "name")

    def __init__(self, allows: bool, name: str, category: bool = False, argument: bytes = b"") -> None:
        self.allows = allows
        self.name = name
        self.category = category
        self.argument = argument

    @property
    def target(self) -> bytes:
        """The rule without its sign."""
        name = self.name.encode()
        if self.category:
            return b"@" + name
        return name + b"|" + self.argument if self.argument else name

    def matches(self, command: Command) -> bool:
        if self.category:
            return self.name in command.matching
        return command.name == self.name or command.name.startswith(self.name + "|")


class KeyPattern:
    """A pattern of keys, and what may be done with them: READ, WRITE or both."""

    __slots__ = ("pattern", "rights", "tokens")

    def __init__(self, pattern: bytes, rights: int) -> None:
        self.pattern = pattern
        self.rights = rights
        self.tokens = tokens_of(pattern)

    def text(self) -> bytes:
        sign = b"~" if self.rights == READ | WRITE else (b"%R~" if self.rights == READ else b"%W~")
        return sign + self.pattern


class Verdict:
    """Whether a command may run, and with which first arguments it may if not."""

    __slots__ = ("allowed", "arguments")

    def __init__(self, allowed: bool, arguments: list[bytes]) -> None:
        self.allowed = allowed
        self.arguments = arguments

    def holds(self, argv: list[bytes]) -> bool:
        return self.allowed or (len(argv) > 1 and argv[1].lower() in self.arguments)


class Selector:
    __slots__ = ("_verdicts", "all_channels", "all_keys", "allows_all", "channels", "patterns", "rules")

    def __init__(self) -> None:
        self.allows_all = False
        self.all_keys = False
        self.all_channels = False
        self.rules: list[Rule] = []
        self.patterns: list[KeyPattern] = []
        self.channels: list[bytes] = []
        self._verdicts: dict[str, Verdict] = {}

    def copy(self) -> Selector:
        other = Selector()
        other.allows_all, other.all_keys, other.all_channels = self.allows_all, self.all_keys, self.all_channels
        other.rules = self.rules.copy()
        other.patterns = [KeyPattern(one.pattern, one.rights) for one in self.patterns]
        other.channels = self.channels.copy()
        return other

    def is_unrestricted(self) -> bool:
        return self.allows_all and not self.rules and self.all_keys and self.all_channels

    # Changing

    def apply(self, rule: bytes, lookup: Lookup) -> None:
        """Apply one rule; raises RuleError."""
        word = rule.lower()
        sign = rule[:1]
        if self._apply_word(word):
            return
        if sign == b"~" or sign == b"%":
            self._add_keys(rule)
        elif sign == b"&":
            self._add_channels(rule[1:])
        elif sign == b"+" or sign == b"-":
            self._verdicts.clear()
            self._add_rule(word, sign == b"+", lookup)
        else:
            raise RuleError(SYNTAX)

    def _apply_word(self, word: bytes) -> bool:
        """Apply a rule that is a word; False if it is none."""
        if word == b"allkeys" or word == b"~*" or word == b"resetkeys":
            self.all_keys = word != b"resetkeys"
            self.patterns = []
        elif word == b"allchannels" or word == b"&*" or word == b"resetchannels":
            self.all_channels = word != b"resetchannels"
            self.channels = []
        elif word == b"allcommands" or word == b"+@all" or word == b"nocommands" or word == b"-@all":
            self.allows_all = word == b"allcommands" or word == b"+@all"
            self.rules = []
            self._verdicts.clear()
        else:
            return False
        return True

    def _add_keys(self, rule: bytes) -> None:
        if self.all_keys:
            raise RuleError(AFTER_ALL_KEYS)
        rights, pattern = READ | WRITE, rule[1:]
        if rule[:1] == b"%":
            letters, _, pattern = rule[1:].partition(b"~")
            rights = rights_of(letters)
        if has_blanks(pattern):
            raise RuleError(SYNTAX)
        for known in self.patterns:
            if known.pattern == pattern:
                known.rights |= rights
                return
        self.patterns.append(KeyPattern(pattern, rights))

    def _add_channels(self, pattern: bytes) -> None:
        if self.all_channels:
            raise RuleError(AFTER_ALL_CHANNELS)
        if has_blanks(pattern):
            raise RuleError(SYNTAX)
        if pattern not in self.channels:
            self.channels.append(pattern)

    def _add_rule(self, word: bytes, allows: bool, lookup: Lookup) -> None:
        rule = category_rule(word, allows) if word[1:2] == b"@" else command_rule(word, allows, lookup)
        target = rule.target
        self.rules = [one for one in self.rules if one.target != target and not one.target.startswith(target + b"|")]
        self.rules.append(rule)

    # Asking

    def verdict(self, command: Command) -> Verdict:
        found = self._verdicts.get(command.name)
        if found is None:
            found = self._verdicts[command.name] = self._judge(command)
        return found

    def _judge(self, command: Command) -> Verdict:
        arguments: list[bytes] = []
        for rule in reversed(self.rules):
            if rule.argument:
                if rule.name == command.name:
                    arguments.append(rule.argument)
            elif rule.matches(command):
                return Verdict(rule.allows, arguments)
        return Verdict(self.allows_all, arguments)

    def allows_key(self, key: bytes, needs: int) -> bool:
        if self.all_keys:
            return True
        return any(pattern.rights & needs == needs and matches(pattern.tokens, key) for pattern in self.patterns)

    def allows_channel(self, channel: bytes, is_pattern: bool) -> bool:
        """True if a channel matches, or a pattern is among those given, letter for letter."""
        if self.all_channels:
            return True
        if is_pattern:
            return channel in self.channels
        return any(matches(tokens_of(allowed), channel) for allowed in self.channels)

    # Describing

    def described_commands(self) -> bytes:
        words = [b"+@all" if self.allows_all else b"-@all"]
        words += [(b"+" if rule.allows else b"-") + rule.target for rule in self.rules]
        return b" ".join(words)

    def described_keys(self) -> bytes:
        return b"~*" if self.all_keys else b" ".join([pattern.text() for pattern in self.patterns])

    def described_channels(self) -> bytes:
        return b"&*" if self.all_channels else b" ".join([b"&" + channel for channel in self.channels])

    def words(self) -> list[bytes]:
        """All of it as rules that lead here from a new selector."""
        words = self.described_keys().split()
        if not self.all_channels:
            words.append(b"resetchannels")
        return [*words, *self.described_channels().split(), *self.described_commands().split()]


def has_blanks(text: bytes) -> bool:
    return any(byte in BLANKS for byte in text)


def rights_of(letters: bytes) -> int:
    """The rights in `%RW~`; each letter once."""
    rights = 0
    for letter in letters.upper():
        right = READ if letter == b"R"[0] else (WRITE if letter == b"W"[0] else 0)
        if not right or rights & right:
            raise RuleError(SYNTAX)
        rights |= right
    if not rights:
        raise RuleError(SYNTAX)
    return rights


def category_rule(word: bytes, allows: bool) -> Rule:
    name = word[2:].decode("latin-1")
    if name not in CATEGORY_NAMES:
        raise RuleError(UNKNOWN)
    return Rule(allows, name, category=True)


def command_rule(word: bytes, allows: bool, lookup: Lookup) -> Rule:
    """`+xadd`, `-xgroup|create`, or `+select|0`, which allows one first argument of a command without subcommands."""
    name = word[1:]
    command = lookup(name)
    if command is not None:
        return Rule(allows, command.name)
    parent, bar, argument = name.rpartition(b"|")
    command = lookup(parent) if allows and bar else None
    if command is None:
        raise RuleError(UNKNOWN)
    if "|" in command.name:
        raise RuleError(FIRST_ARGUMENT)
    if not argument or has_blanks(argument):
        raise RuleError(SYNTAX)
    if command.subcommands is not None:
        raise RuleError(UNKNOWN)
    return Rule(allows, command.name, argument=argument)


def in_parentheses(selector: Selector) -> bytes:
    """The rule that `selector_of` makes this selector from."""
    return b"(" + b" ".join([quoted(word) for word in selector.words()]) + b")"


def quoted(word: bytes) -> bytes:
    """In quotes if it would be read otherwise between parentheses."""
    if not any(byte in SPECIAL for byte in word):
        return word
    return b'"' + word.replace(b"\\", b"\\\\").replace(b'"', b'\\"') + b'"'


def selector_of(rule: bytes, lookup: Lookup) -> Selector:
    """The selector that a rule in parentheses describes."""
    words = split_arguments(rule[1:-1])
    if words is None:
        raise RuleError(SYNTAX)
    selector = Selector()
    for word in words:
        selector.apply(word, lookup)
    return selector
