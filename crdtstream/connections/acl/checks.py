"""Whether a user may make a request, and if not, what is in the way.

A request is allowed if one selector of the user allows the command, all keys and all channels. Commands that run
before AUTH are allowed to everyone.

Reference: `ACLCheckAllUserCommandPerm` and `getAclErrorMessage` of Redis.
"""

from __future__ import annotations

from typing import Final

from crdtstream.connections.acl.selector import Selector
from crdtstream.connections.acl.user import User
from crdtstream.connections.command import NOT_A_KEY, Command

# In the order in which selectors that fail differently are reported: the last one counts.
COMMAND: Final = 1
KEY: Final = 2
CHANNEL: Final = 3


class Denial:
    """What is in the way: the command, or the key or channel at a position of the request."""

    __slots__ = ("at", "kind")

    def __init__(self, kind: int, at: int = 0) -> None:
        self.kind = kind
        self.at = at


def denial_of(user: User, command: Command, argv: list[bytes]) -> Denial | None:
    """None if the user may do this."""
    worst = Denial(COMMAND)
    for selector in user.selectors:
        found = denial_by(selector, command, argv)
        if found is None:
            return None
        if (found.kind, found.at) > (worst.kind, worst.at):
            worst = found
    return worst


def denial_by(selector: Selector, command: Command, argv: list[bytes]) -> Denial | None:
    if command.auth_needed and not selector.verdict(command).holds(argv):
        return Denial(COMMAND)
    keys = command.keys
    for index, at in enumerate(keys.positions(argv)):
        needs = keys.need_at(index)
        if needs != NOT_A_KEY and not selector.allows_key(argv[at], needs):
            return Denial(KEY, at)
    channels = command.channels
    for at in channels.positions(argv):
        if not selector.allows_channel(argv[at], channels.are_patterns):
            return Denial(CHANNEL, at)
    return None


def short_reason(denial: Denial, user: User, command: Command) -> str:
    """What a client is told; it learns no key or channel from it."""
    if denial.kind == COMMAND:
        return f"User {text_of(user.name)} has no permissions to run the '{command.name}' command"
    return f"No permissions to access a {'key' if denial.kind == KEY else 'channel'}"


def full_reason(denial: Denial, user: User, command: Command, argv: list[bytes]) -> str:
    """What ACL DRYRUN tells."""
    if denial.kind == COMMAND:
        return short_reason(denial, user, command)
    what = "key" if denial.kind == KEY else "channel"
    return f"User {text_of(user.name)} has no permissions to access the '{text_of(argv[denial.at])}' {what}"


def text_of(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")
