"""ACL: the users of this region, and what each may do.

Users are local to the region, and last until it ends unless they are saved to the file of the setting `aclfile`. The
runtime reads and writes that file; a command that needs it waits for that.

Reference: `aclCommand` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.catalogue import CATALOGUE
from crdtstream.commands.integers import integer
from crdtstream.connections.access import change_user, remove_user, replace_users
from crdtstream.connections.acl.checks import denial_of, full_reason
from crdtstream.connections.acl.log import AclLogEntry
from crdtstream.connections.acl.selector import Selector, has_blanks
from crdtstream.connections.acl.user import User
from crdtstream.connections.acl.users import DEFAULT, RulesError, users_of
from crdtstream.connections.client import Client
from crdtstream.connections.command import CATEGORIES, Command, help_row
from crdtstream.connections.context import CommandError, Context, Reply, Waiter, shown
from crdtstream.connections.parking import NO_DEADLINE
from crdtstream.connections.process import AclFile
from crdtstream.protocols import replies

LOG_ENTRIES = 10
PASSWORD_BITS = 256
PASSWORD_BITS_MAX = 4096
BAD_NAME = "ERR Usernames can't contain spaces or null characters"
NO_NAME = "ERR a username must not be empty: it could not be read back from an ACL file"
NO_FILE = (
    "ERR This region is not configured to use an ACL file. Start it with --aclfile FILE to keep users; those of ACL"
    " SETUSER last until it ends."
)
SHARED_FILE = (
    "ERR ACL SAVE is refused, because all shards of a region read one ACL file: change the file, then send SIGHUP to"
    " the supervisor"
)
NOT_SAVED = "ERR There was an error trying to save the ACLs. Please check the server logs for more information"
BAD_BITS = (
    "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to"
    f" {PASSWORD_BITS_MAX}"
)
NO_RANDOM = "ERR this region has no source of random numbers"


def set_user(context: Context, client: Client, argv: list[bytes]) -> Reply:
    name = argv[2]
    if has_blanks(name):
        raise CommandError(BAD_NAME)
    if not name:
        raise CommandError(NO_NAME)
    try:
        user = context.users.staged(name, argv[3:], CATALOGUE.named)
    except RulesError as error:
        raise refusal(error) from error
    change_user(context, client, user)
    return replies.OK


def refusal(error: RulesError) -> CommandError:
    rule = shown(error.rule or b"")
    if error.text.startswith("Unmatched"):
        return CommandError(f"ERR {error.text} '{rule}'.")
    return CommandError(f"ERR Error in ACL SETUSER modifier '{rule}': {error.text}")


def delete_users(context: Context, client: Client, argv: list[bytes]) -> Reply:
    names = argv[2:]
    if DEFAULT in names:
        raise CommandError("ERR The 'default' user cannot be removed")
    return replies.integer(len([name for name in names if remove_user(context, client, name)]))


# Showing


def get_user(context: Context, client: Client, argv: list[bytes]) -> Reply:
    user = context.users.get(argv[2])
    if user is None:
        return replies.null_bulk(client.protocol)
    protocol = client.protocol
    items = [
        replies.bulk(b"flags"),
        replies.unordered([replies.bulk(flag) for flag in user.flags()], protocol),
        replies.bulk(b"passwords"),
        replies.bulk_array(user.passwords),
        *described(user.selectors[0]),
        replies.bulk(b"selectors"),
        replies.array([replies.mapping(described(selector), protocol) for selector in user.selectors[1:]]),
    ]
    return replies.mapping(items, protocol)


def described(selector: Selector) -> list[bytes]:
    return [
        replies.bulk(b"commands"),
        replies.bulk(selector.described_commands()),
        replies.bulk(b"keys"),
        replies.bulk(selector.described_keys()),
        replies.bulk(b"channels"),
        replies.bulk(selector.described_channels()),
    ]


def list_users(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.bulk_array([user.described() for user in context.users.all()])


def names(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.bulk_array(context.users.names())


def own_name(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.bulk(client.user.name)


def categories(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """ACL CAT [category]: the categories, or the commands and subcommands in one."""
    if len(argv) > 3:
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. Try ACL HELP.")
    if len(argv) == 2:
        return replies.bulk_array([category.encode() for category in CATEGORIES])
    wanted = argv[2].lower().decode("latin-1")
    if wanted not in CATEGORIES:
        raise CommandError(f"ERR Unknown category '{shown(argv[2])}'")
    return replies.bulk_array([row.name.encode() for row in CATALOGUE if wanted in row.categories])


def generate(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """ACL GENPASS [bits]: a new password in hexadecimal."""
    if len(argv) > 3:
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. Try ACL HELP.")
    bits = integer(argv[2]) if len(argv) == 3 else PASSWORD_BITS
    if not 0 < bits <= PASSWORD_BITS_MAX:
        raise CommandError(BAD_BITS)
    draw = context.random_bytes
    if draw is None:
        raise CommandError(NO_RANDOM)
    digits = (bits + 3) // 4
    return replies.bulk(draw((digits + 1) // 2).hex()[:digits].encode())


def dry_run(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """ACL DRYRUN user command [arg ...]: whether the user could run it."""
    user: User | None = context.users.get(argv[2])
    if user is None:
        raise CommandError(f"ERR User '{shown(argv[2])}' not found")
    request = argv[3:]
    command = CATALOGUE.of_request(request)
    if command is None:
        raise CommandError(f"ERR Command '{shown(argv[3])}' not found")
    if not command.accepts(len(request)):
        raise CommandError(f"ERR wrong number of arguments for '{command.name}' command")
    denial = denial_of(user, command, request)
    if denial is None:
        return replies.OK
    return replies.bulk(full_reason(denial, user, command, request).encode("utf-8", "surrogateescape"))


# LOG


def show_log(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """ACL LOG [count | RESET]."""
    if len(argv) > 3:
        raise CommandError(f"ERR unknown subcommand or wrong number of arguments for '{shown(argv[1])}'. Try ACL HELP.")
    if len(argv) == 3 and argv[2].upper() == b"RESET":
        context.users.log.clear()
        return replies.OK
    count = max(0, integer(argv[2])) if len(argv) == 3 else LOG_ENTRIES
    entries = context.users.log.entries
    rows = [entry_row(entries[at], context.now_ms, client.protocol) for at in range(min(count, len(entries)))]
    return replies.array(rows)


def entry_row(entry: AclLogEntry, now_ms: int, protocol: int) -> bytes:
    age_s = max(0, now_ms - entry.updated_ms) / 1000
    fields = [
        (b"count", replies.integer(entry.count)),
        (b"reason", replies.bulk(entry.reason.encode())),
        (b"context", replies.bulk(entry.within.encode())),
        (b"object", replies.bulk(entry.subject)),
        (b"username", replies.bulk(entry.username)),
        (b"age-seconds", replies.double(age_s, protocol)),
        (b"client-info", replies.bulk(entry.client)),
        (b"entry-id", replies.integer(entry.number)),
        (b"timestamp-created", replies.integer(entry.created_ms)),
        (b"timestamp-last-updated", replies.integer(entry.updated_ms)),
    ]
    return replies.mapping([item for name, value in fields for item in (replies.bulk(name), value)], protocol)


# SAVE and LOAD


class FileWaiter(Waiter):
    """A client that waits until the ACL file is written, or read, whose users then replace those there are."""

    def __init__(self, client: Client, file: AclFile, loads: bool) -> None:
        super().__init__(client, [], NO_DEADLINE)
        self.file = file
        self.loads = loads

    def serve(self, context: Context) -> bytes | None:
        if not self.file.done:
            return None
        if self.file.failure:
            raise CommandError(f"ERR {self.file.failure}" if self.loads else NOT_SAVED)
        if self.loads:
            load_text(context, self.client, self.file.text or b"")
        return replies.OK

    def expired(self, context: Context) -> bytes:
        return replies.error(b"ERR the wait ended early: check whether the ACL file has been used")


def load_text(context: Context, client: Client, text: bytes) -> None:
    try:
        users = users_of(text, context.settings.config.aclfile, CATALOGUE.named)
    except RulesError as error:
        raise CommandError(f"ERR {error.text}") from error
    replace_users(context, client, users)


def save(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if context.shards is not None:
        raise CommandError(SHARED_FILE)
    return request_file(context, client, AclFile(context.users.text()), loads=False)


def load(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return request_file(context, client, AclFile(None), loads=True)


def request_file(context: Context, client: Client, file: AclFile, loads: bool) -> Reply:
    if not context.settings.config.aclfile:
        raise CommandError(NO_FILE)
    context.park(FileWaiter(client, file, loads))
    context.requests.acl.append(file)
    return None


SECRET = "admin noscript loading stale"
OPEN = "noscript loading stale"
ACL = [
    Command(
        "acl|cat",
        categories,
        arity=-2,
        flags=OPEN,
        since="6.0.0",
        summary="Lists the ACL categories, or the commands inside a category.",
        syntax="[category]",
        help=(
            "CAT [<category>]",
            "    List all commands that belong to <category>, or all command categories",
            "    when no category is specified.",
        ),
    ),
    Command(
        "acl|deluser",
        delete_users,
        arity=-3,
        flags=SECRET,
        since="6.0.0",
        summary="Deletes ACL users, and terminates their connections.",
        syntax="username...",
        help=("DELUSER <username> [<username> ...]", "    Delete a list of users."),
    ),
    Command(
        "acl|dryrun",
        dry_run,
        arity=-4,
        flags=SECRET,
        since="7.0.0",
        summary="Simulates the execution of a command by a user, without executing the command.",
        syntax="username command [arg...]",
        help=(
            "DRYRUN <username> <command> [<arg> ...]",
            "    Returns whether the user can execute the given command without executing the command.",
        ),
    ),
    Command(
        "acl|genpass",
        generate,
        arity=-2,
        flags=OPEN,
        since="6.0.0",
        summary="Generates a pseudorandom, secure password that can be used to identify ACL users.",
        syntax="[bits#]",
        help=(
            "GENPASS [<bits>]",
            "    Generate a secure 256-bit user password. The optional `bits` argument can",
            "    be used to specify a different size.",
        ),
    ),
    Command(
        "acl|getuser",
        get_user,
        arity=3,
        flags=SECRET,
        since="6.0.0",
        summary="Lists the ACL rules of a user.",
        syntax="username",
        help=("GETUSER <username>", "    Get the user's details."),
    ),
    help_row("acl", since="6.0.0", line="    Print this help."),
    Command(
        "acl|list",
        list_users,
        arity=2,
        flags=SECRET,
        since="6.0.0",
        summary="Dumps the effective rules in ACL file format.",
        help=("LIST", "    Show users details in config file format."),
    ),
    Command(
        "acl|load",
        load,
        arity=2,
        flags=SECRET + " no_multi",
        since="6.0.0",
        summary="Reloads the rules from the configured ACL file.",
        help=("LOAD", "    Reload users from the ACL file."),
    ),
    Command(
        "acl|log",
        show_log,
        arity=-2,
        flags=SECRET,
        since="6.0.0",
        summary="Lists recent security events generated due to ACL rules.",
        syntax="[operation:<count# | RESET>]",
        help=("LOG [<count> | RESET]", "    Show the ACL log entries."),
    ),
    Command(
        "acl|save",
        save,
        arity=2,
        flags=SECRET + " no_multi",
        since="6.0.0",
        summary="Saves the effective ACL rules in the configured ACL file.",
        help=("SAVE", "    Save the current config to the ACL file."),
    ),
    Command(
        "acl|setuser",
        set_user,
        arity=-3,
        flags=SECRET,
        since="6.0.0",
        summary="Creates and modifies an ACL user and its rules.",
        syntax="username [rule...]",
        help=(
            "SETUSER <username> <attribute> [<attribute> ...]",
            "    Create or modify a user with the specified attributes.",
        ),
    ),
    Command(
        "acl|users",
        names,
        arity=2,
        flags=SECRET,
        since="6.0.0",
        summary="Lists all ACL users.",
        help=("USERS", "    List all the registered usernames."),
    ),
    Command(
        "acl|whoami",
        own_name,
        arity=2,
        flags=OPEN,
        since="6.0.0",
        summary="Returns the authenticated username of the current connection.",
        help=("WHOAMI", "    Return the current connection username."),
    ),
]
COMMANDS: list[Command] = [
    Command(
        "acl",
        arity=-2,
        since="6.0.0",
        group="server",
        summary="A container for Access List Control commands.",
        subcommands=ACL,
        help_order="cat deluser dryrun getuser genpass list load log save setuser users whoami",
    ),
]
