"""All users of one region. They are local to it, as in Redis: neither logged nor sent to other regions.

`default` always exists: it is the user of connections that have not given another one. A user that changes stays the
same object, so its clients have the new rights at once.

Reference: `ACLStringSetUser` and `ACLLoadFromFile` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.acl.log import AclLog
from crdtstream.connections.acl.selector import UNKNOWN, Lookup, RuleError, has_blanks
from crdtstream.connections.acl.user import User, hashed

DEFAULT: Final = b"default"
UNCHANGED: Final = "WARNING: ACL errors detected, no change to the previously active ACL rules was performed"


class RulesError(ValueError):
    """Rules that cannot be applied; `rule` is the one at fault, and the text Redis's reason, or all of its reply."""

    def __init__(self, text: str, rule: bytes | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.rule = rule


class Users:
    __slots__ = ("_by_name", "default", "log")

    def __init__(self) -> None:
        self.default = open_user()
        self.log = AclLog()
        self._by_name = {DEFAULT: self.default}

    def get(self, name: bytes) -> User | None:
        return self._by_name.get(name)

    def names(self) -> list[bytes]:
        return sorted(self._by_name)

    def all(self) -> list[User]:
        """By name."""
        return [self._by_name[name] for name in self.names()]

    def requires_login(self) -> bool:
        """True if a client has to give a password before it may do anything."""
        return not (self.default.nopass and self.default.enabled)

    def authenticate(self, name: bytes, password: bytes) -> User | None:
        """The user, if the password is right. An unknown user takes as long as a wrong password."""
        user = self._by_name.get(name)
        if user is None:
            hashed(password)
            return None
        return user if user.accepts(password) else None

    def require_password(self, password: bytes) -> None:
        """Make this the only password of the default user; empty: it needs none."""
        self.default.passwords = [hashed(password)] if password else []
        self.default.nopass = not password

    def staged(self, name: bytes, rules: list[bytes], lookup: Lookup) -> User:
        """The user as these rules would make it, for `put`; raises RulesError."""
        known = self._by_name.get(name)
        user = User(name) if known is None else known.copy()
        for rule in merged(rules):
            try:
                user.apply(rule, lookup)
            except RuleError as error:
                raise RulesError(str(error), rule) from error
        return user

    def put(self, user: User) -> User:
        """Add a user, or change the one of its name; returns the one that is kept."""
        known = self._by_name.setdefault(user.name, user)
        if known is not user:
            known.become(user)
        return known

    def remove(self, name: bytes) -> User | None:
        return None if name == DEFAULT else self._by_name.pop(name, None)

    # Files

    def text(self) -> bytes:
        """The content of an ACL file."""
        return b"".join([user.described() + b"\n" for user in self.all()])

    def check(self) -> None:
        assert self._by_name[DEFAULT] is self.default, "two default users"
        for name, user in self._by_name.items():
            assert user.name == name, f"{user.name!r} is listed as {name!r}"
            user.check()


def open_user() -> User:
    """The default user of a region that nothing has been said to: it may do everything."""
    user = User(DEFAULT)
    for rule in (b"+@all", b"~*", b"&*", b"on", b"nopass"):
        user.apply(rule, no_command)
    return user


def no_command(_name: bytes) -> None:
    """For rules that name no command."""


def merged(rules: list[bytes]) -> list[bytes]:
    """The rules with each selector, which may take several arguments, as one; raises RulesError."""
    found: list[bytes] = []
    parts: list[bytes] = []
    for rule in rules:
        if parts or (rule.startswith(b"(") and not rule.endswith(b")")):
            parts.append(rule)
            if len(parts) > 1 and rule.endswith(b")"):
                found.append(b" ".join(parts))
                parts = []
        else:
            found.append(rule)
    if parts:
        raise RulesError("Unmatched parenthesis in acl selector starting at", parts[0])
    return found


# Reading a file


def users_of(text: bytes, path: str, lookup: Lookup) -> dict[bytes, User]:
    """The users that a file describes. Raises RulesError with all errors of all lines, as Redis tells them."""
    users: dict[bytes, User] = {}
    errors: list[str] = []
    for number, line in enumerate(text.split(b"\n"), 1):
        words = [word for word in line.strip(b" \t\r\n").split(b" ") if word]
        if words:
            errors += read_line(words, users, f"{path}:{number}", number, lookup)
    if errors:
        raise RulesError("".join(errors) + UNCHANGED)
    return users


def read_line(words: list[bytes], users: dict[bytes, User], place: str, number: int, lookup: Lookup) -> list[str]:
    """Add the user of one line; returns what is wrong with it."""
    if words[0] != b"user" or len(words) < 2:
        return [f"{place} should start with user keyword followed by the username. "]
    name = words[1]
    if has_blanks(name):
        return [f"'{place}: username '{text_of(name)}' contains invalid characters. "]
    if name in users:
        return [f"WARNING: Duplicate user '{text_of(name)}' found on line {number}. "]
    user = users[name] = User(name)
    try:
        rules = merged(words[2:])
    except RulesError:
        return [f"{place}: Unmatched parenthesis in selector definition."]
    return apply_all(user, rules, place, lookup)


def apply_all(user: User, rules: list[bytes], place: str, lookup: Lookup) -> list[str]:
    """Apply the rules; returns the errors: each rule that names what does not exist, and of the others only the first
    one, without the rule, which may hold a secret.
    """
    errors: list[str] = []
    wrong = False
    for rule in rules:
        rule = rule.strip(b"\t\r\n")
        try:
            user.apply(rule, lookup)
        except RuleError as error:
            if str(error) == UNKNOWN:
                errors.append(f"{place}: Error in applying operation '{text_of(rule)}': {error}. ")
            elif not wrong:
                errors.append(f"{place}: {error}. ")
                wrong = True
    return errors


def text_of(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
