"""One user: whether it may log in, with which passwords, and what it may do.

Only SHA-256 hashes of passwords are kept, as in Redis, in hexadecimal. A request is allowed if one selector allows all
of it; the first selector is the user's own, the others were added in parentheses.

Reference: `ACLSetUser` and `ACLDescribeUser` of Redis.
"""

from __future__ import annotations

import hmac
import re
from hashlib import sha256
from typing import Final

from crdtstream.connections.acl.selector import Lookup, RuleError, Selector, in_parentheses, selector_of

HASH: Final = re.compile(rb"[0-9a-f]{64}")
NO_SUCH_PASSWORD: Final = "The password you are trying to remove from the user does not exist"
BAD_HASH: Final = "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters"


class User:
    """Without rights, and disabled, until rules say otherwise."""

    __slots__ = ("enabled", "name", "nopass", "passwords", "sanitizes", "selectors", "unrestricted")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.enabled = False
        self.nopass = False
        # Shown only: payloads of RESTORE are always checked.
        self.sanitizes = True
        self.passwords: list[bytes] = []
        self.selectors = [Selector()]
        self.unrestricted = False

    def copy(self) -> User:
        other = User(self.name)
        other.become(self)
        return other

    def become(self, other: User) -> None:
        """Take over everything but the name."""
        self.enabled, self.nopass, self.sanitizes = other.enabled, other.nopass, other.sanitizes
        self.passwords = other.passwords.copy()
        self.selectors = [selector.copy() for selector in other.selectors]
        self.unrestricted = other.unrestricted

    def accepts(self, password: bytes) -> bool:
        """Compare in a time that does not depend on the passwords."""
        if not self.enabled:
            return False
        given = hashed(password)
        # All are compared, so that the time does not tell which one matched.
        found = [hmac.compare_digest(given, known) for known in self.passwords]
        return self.nopass or any(found)

    # Changing

    def apply(self, rule: bytes, lookup: Lookup) -> None:
        """Apply one rule; raises RuleError."""
        if not rule:
            return
        sign = rule[:1]
        if sign == b"(" and rule[-1:] == b")":
            self.selectors.append(selector_of(rule, lookup))
        elif sign == b">" or sign == b"#":
            self._add_password(rule)
        elif sign == b"<" or sign == b"!":
            self._remove_password(rule)
        elif not self._apply_word(rule.lower()):
            self.selectors[0].apply(rule, lookup)
        self.unrestricted = any(selector.is_unrestricted() for selector in self.selectors)

    def _apply_word(self, word: bytes) -> bool:
        """Apply a rule that is a word; False if it is none of the user's."""
        if word == b"on" or word == b"off":
            self.enabled = word == b"on"
        elif word == b"nopass" or word == b"resetpass":
            self.nopass = word == b"nopass"
            self.passwords = []
        elif word == b"sanitize-payload" or word == b"skip-sanitize-payload":
            self.sanitizes = word == b"sanitize-payload"
        elif word == b"clearselectors":
            self.selectors = [self.selectors[0]]
        elif word == b"reset":
            self.become(User(self.name))
        else:
            return False
        return True

    def _add_password(self, rule: bytes) -> None:
        password = hash_of(rule, b"#")
        self.nopass = False
        if password not in self.passwords:
            self.passwords.append(password)

    def _remove_password(self, rule: bytes) -> None:
        password = hash_of(rule, b"!")
        if password not in self.passwords:
            raise RuleError(NO_SUCH_PASSWORD)
        self.passwords.remove(password)

    # Describing

    def flags(self) -> list[bytes]:
        found = [b"on" if self.enabled else b"off"]
        if self.nopass:
            found.append(b"nopass")
        return [*found, b"sanitize-payload" if self.sanitizes else b"skip-sanitize-payload"]

    def described(self) -> bytes:
        """The line of an ACL file, from which the same user can be made."""
        words = [b"user", self.name, *self.flags()]
        words += [b"#" + password for password in self.passwords]
        words += self.selectors[0].words()
        words += [in_parentheses(selector) for selector in self.selectors[1:]]
        return b" ".join(words)

    def check(self) -> None:
        assert self.selectors, f"{self.name!r} has no selector"
        assert not (self.nopass and self.passwords), f"{self.name!r} needs a password and none"
        wide = [selector for selector in self.selectors if selector.is_unrestricted()]
        assert self.unrestricted == bool(wide), f"{self.name!r} is marked wrongly"


def hashed(password: bytes) -> bytes:
    return sha256(password).hexdigest().encode()


def hash_of(rule: bytes, hash_sign: bytes) -> bytes:
    """The hash that a rule names, or that of the password in it."""
    if rule[:1] != hash_sign:
        return hashed(rule[1:])
    if not HASH.fullmatch(rule[1:]):
        raise RuleError(BAD_HASH)
    return rule[1:]
