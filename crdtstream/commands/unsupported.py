"""MODULE, SCRIPT, FUNCTION: what a server answers that has no modules and no scripts.

Tools ask all this when they connect, or before they start over with an empty server. They get the answers of a Redis
that has nothing of it. What would bring something of it here is refused.

Reference: `module.c`, `eval.c` and `functions.c` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, Function, help_row
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.protocols import replies

NO_MODULES = (
    'ERR MODULE command not allowed. If the enable-module-command option is set to "local", you can run it from a local'
    " connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
NO_SCRIPTS = "ERR this server stores streams only, it has no scripts"
NOT_BUSY = "NOTBUSY No scripts in execution right now."
MODES = (b"ASYNC", b"SYNC")


def nothing(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.EMPTY_ARRAY


def no_modules(context: Context, client: Client, argv: list[bytes]) -> Reply:
    raise CommandError(NO_MODULES)


def no_scripts(context: Context, client: Client, argv: list[bytes]) -> Reply:
    raise CommandError(NO_SCRIPTS)


def not_busy(context: Context, client: Client, argv: list[bytes]) -> Reply:
    raise CommandError(NOT_BUSY)


def flush_scripts(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in MODES):
        raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    return replies.OK


def scripts_exist(context: Context, client: Client, argv: list[bytes]) -> Reply:
    return replies.array([replies.ZERO] * (len(argv) - 2))


def flush_functions(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) > 3 or (len(argv) == 3 and argv[2].upper() not in MODES):
        raise CommandError("ERR FUNCTION FLUSH only supports SYNC|ASYNC option")
    return replies.OK


def list_functions(context: Context, client: Client, argv: list[bytes]) -> Reply:
    at = 2
    while at < len(argv):
        word = argv[at].upper()
        if word not in (b"WITHCODE", b"LIBRARYNAME"):
            raise CommandError(f"ERR Unknown argument {shown(argv[at])}")
        if word == b"LIBRARYNAME" and at + 1 == len(argv):
            raise CommandError("ERR library name argument was not given")
        at += 2 if word == b"LIBRARYNAME" else 1
    return replies.EMPTY_ARRAY


def function_statistics(context: Context, client: Client, argv: list[bytes]) -> Reply:
    items = [replies.bulk(b"running_script"), replies.null_bulk(client.protocol)]
    items += [replies.bulk(b"engines"), replies.mapping([], client.protocol)]
    return replies.mapping(items, client.protocol)


def no_library(context: Context, client: Client, argv: list[bytes]) -> Reply:
    raise CommandError("ERR Library not found")


# Subcommand, what answers it, arity, flags, version, syntax. The texts of a table follow it: for each subcommand its
# summary, then the lines of HELP, word for word.
UnsupportedRow = tuple[str, Function, int, str, str, str]
MODULE: list[UnsupportedRow] = [
    ("list", nothing, 2, "admin noscript", "4.0.0", ""),
    ("load", no_modules, -3, "admin noscript no_async_loading", "4.0.0", "path [arg...]"),
    ("unload", no_modules, 3, "admin noscript no_async_loading", "4.0.0", "name"),
]
MODULE_TEXTS = """\
list: Returns all loaded modules: none.
LIST
    Return a list of loaded modules.

load: Refused: there are no modules.
LOAD <path> [<arg> ...]
    Load a module library from <path>, passing to it any optional arguments.

unload: Refused: there are no modules.
UNLOAD <name>
    Unload a module."""
SCRIPT: list[UnsupportedRow] = [
    ("exists", scripts_exist, -3, "noscript", "2.6.0", "sha1..."),
    ("flush", flush_scripts, -2, "noscript", "2.6.0", "[flush-type:<ASYNC | SYNC>@6.2.0]"),
    ("kill", not_busy, 2, "noscript allow_busy", "2.6.0", ""),
    ("load", no_scripts, 3, "noscript stale", "2.6.0", "script"),
]
SCRIPT_TEXTS = """\
exists: Determines whether server-side scripts exist in the script cache: none do.
EXISTS <sha1> [<sha1> ...]
    Return information about the existence of the scripts in the script cache.

flush: Removes all server-side scripts from the script cache, which is empty.
FLUSH [ASYNC|SYNC]
    Flush the Lua scripts cache. Very dangerous on replicas.
    When called without the optional mode argument, the behavior is determined by the
    lazyfree-lazy-user-flush configuration directive. Valid modes are:
    * ASYNC: Asynchronously flush the scripts cache.
    * SYNC: Synchronously flush the scripts cache.

kill: Terminates a server-side script: none runs.
KILL
    Kill the currently executing Lua script.

load: Refused: there are no scripts.
LOAD <script>
    Load a script into the scripts cache without executing it."""
FUNCTION: list[UnsupportedRow] = [
    ("delete", no_library, 3, "noscript write", "7.0.0", "library-name"),
    ("flush", flush_functions, -2, "noscript write", "7.0.0", "[flush-type:<ASYNC | SYNC>]"),
    ("kill", not_busy, 2, "noscript allow_busy", "7.0.0", ""),
    ("list", list_functions, -2, "noscript", "7.0.0", "[LIBRARYNAME library-name-pattern] [WITHCODE]"),
    ("load", no_scripts, -3, "noscript write denyoom", "7.0.0", "[REPLACE] function-code"),
    ("stats", function_statistics, 2, "noscript allow_busy", "7.0.0", ""),
]
FUNCTION_TEXTS = """\
delete: Deletes a library and its functions: there are none.
DELETE <LIBRARY NAME>
    Delete the given library.

flush: Deletes all libraries and functions: there are none.
FLUSH [ASYNC|SYNC]
    Delete all the libraries.
    When called without the optional mode argument, the behavior is determined by the
    lazyfree-lazy-user-flush configuration directive. Valid modes are:
    * ASYNC: Asynchronously flush the libraries.
    * SYNC: Synchronously flush the libraries.

kill: Terminates a function during execution: none runs.
KILL
    Kill the current running function.

list: Returns information about all libraries: there are none.
LIST [LIBRARYNAME PATTERN] [WITHCODE]
    Return general information on all the libraries:
    * Library name
    * The engine used to run the Library
    * Functions list
    * Library code (if WITHCODE is given)
    It also possible to get only function that matches a pattern using LIBRARYNAME argument.

load: Refused: there are no functions.
LOAD [REPLACE] <FUNCTION CODE>
    Create a new library with the given library name and code.

stats: Returns information about a function during execution: none runs.
STATS
    Return information about the current function running:
    * Function name
    * Command used to run the function
    * Duration in MS that the function is running
    If no function is running, return nil
    In addition, returns a list of available engines."""
FUNCTION_HELP_ORDER = "load delete list stats kill flush"


def described(texts: str) -> dict[str, list[str]]:
    """By subcommand: its summary, then the lines of HELP."""
    found: dict[str, list[str]] = {}
    for block in texts.split("\n\n"):
        head, *lines = block.split("\n")
        name, _, summary = head.partition(": ")
        found[name] = [summary, *lines]
    return found


def subcommand(container: str, row: UnsupportedRow, summary: str, help: list[str]) -> Command:
    name, answer, arity, flags, since, syntax = row
    return Command(
        f"{container}|{name}",
        answer,
        arity=arity,
        flags=flags,
        since=since,
        summary=summary,
        syntax=syntax,
        help=tuple(help),
    )


def with_help(container: str, since: str, rows: list[UnsupportedRow], texts: str) -> list[Command]:
    """The subcommands and HELP, which came with version `since`, by their names, as COMMAND tells them."""
    known = described(texts)
    found = [subcommand(container, row, known[row[0]][0], known[row[0]][1:]) for row in rows]
    found.append(help_row(container, since=since, line="    Print this help."))
    return sorted(found, key=lambda command: command.name)


def container(
    name: str, group: str, since: str, summary: str, subcommands: list[Command], help_order: str = ""
) -> Command:
    return Command(
        name, arity=-2, since=since, group=group, summary=summary, subcommands=subcommands, help_order=help_order
    )


MODULE_COMMANDS = with_help("module", "5.0.0", MODULE, MODULE_TEXTS)
SCRIPT_COMMANDS = with_help("script", "5.0.0", SCRIPT, SCRIPT_TEXTS)
FUNCTION_COMMANDS = with_help("function", "7.0.0", FUNCTION, FUNCTION_TEXTS)
COMMANDS: list[Command] = [
    container("module", "server", "4.0.0", "A container for module commands.", MODULE_COMMANDS),
    container("script", "scripting", "2.6.0", "A container for Lua scripts management commands.", SCRIPT_COMMANDS),
    container(
        "function", "scripting", "7.0.0", "A container for function commands.", FUNCTION_COMMANDS, FUNCTION_HELP_ORDER
    ),
]
