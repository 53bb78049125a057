"""CLUSTER, MODULE, SCRIPT, FUNCTION: what a server answers that has no cluster, no modules and no scripts.

Tools ask all this when they connect, or before they start over with an empty server. They get the answers of a Redis
that has nothing of it. What would bring something of it here is refused.

Reference: `cluster.c`, `module.c`, `eval.c` and `functions.c` of Redis.
"""

from __future__ import annotations

from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row
from crdtstream.connections.context import CommandError, Context, Reply, shown
from crdtstream.protocols import replies

NO_CLUSTER = "ERR This instance has cluster support disabled"
NO_MODULES = (
    'ERR MODULE command not allowed. If the enable-module-command option is set to "local", you can run it from a local'
    " connection, otherwise you need to set this option in the configuration file, and then restart the server."
)
NO_SCRIPTS = "ERR this server stores streams only, it has no scripts"
NOT_BUSY = "NOTBUSY No scripts in execution right now."
MODES = (b"ASYNC", b"SYNC")
BY_DEFAULT = (
    "    When called without the optional mode argument, the behavior is determined by the",
    "    lazyfree-lazy-user-flush configuration directive. Valid modes are:",
)


def no_cluster(context: Context, client: Client, argv: list[bytes]) -> Reply:
    raise CommandError(NO_CLUSTER)


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


# Name, arity, flags, version, syntax.
CLUSTER_ROWS: list[tuple[str, int, str, str, str]] = [
    ("addslots", -3, "admin stale no_async_loading", "3.0.0", "slot#..."),
    ("addslotsrange", -4, "admin stale no_async_loading", "7.0.0", "range:(start-slot# end-slot#)..."),
    ("bumpepoch", 2, "admin stale no_async_loading", "3.0.0", ""),
    ("count-failure-reports", 3, "admin stale", "3.0.0", "node-id"),
    ("countkeysinslot", 3, "stale", "3.0.0", "slot#"),
    ("delslots", -3, "admin stale no_async_loading", "3.0.0", "slot#..."),
    ("delslotsrange", -4, "admin stale no_async_loading", "7.0.0", "range:(start-slot# end-slot#)..."),
    ("failover", -2, "admin stale no_async_loading", "3.0.0", "[options:<FORCE | TAKEOVER>]"),
    ("flushslots", 2, "admin stale no_async_loading", "3.0.0", ""),
    ("forget", 3, "admin stale no_async_loading", "3.0.0", "node-id"),
    ("getkeysinslot", 4, "stale", "3.0.0", "slot# count#"),
    ("help", 2, "loading stale", "5.0.0", ""),
    ("info", 2, "stale", "3.0.0", ""),
    ("keyslot", 3, "stale", "3.0.0", "key-name"),
    ("links", 2, "stale", "7.0.0", ""),
    ("meet", -4, "admin stale no_async_loading", "3.0.0", "ip port# [cluster-bus-port#@4.0.0]"),
    ("myid", 2, "stale", "3.0.0", ""),
    ("myshardid", 2, "stale", "7.2.0", ""),
    ("nodes", 2, "stale", "3.0.0", ""),
    ("replicas", 3, "admin stale", "5.0.0", "node-id"),
    ("replicate", 3, "admin stale no_async_loading", "3.0.0", "node-id"),
    ("reset", -2, "admin noscript stale", "3.0.0", "[reset-type:<HARD | SOFT>]"),
    ("saveconfig", 2, "admin stale no_async_loading", "3.0.0", ""),
    ("set-config-epoch", 3, "admin stale no_async_loading", "3.0.0", "config-epoch#"),
    (
        "setslot",
        -4,
        "admin stale no_async_loading",
        "3.0.0",
        "slot# subcommand:<IMPORTING importing=node-id | MIGRATING migrating=node-id | NODE node=node-id | STABLE>",
    ),
    ("shards", 2, "loading stale", "7.0.0", ""),
    ("slaves", 3, "admin stale", "3.0.0", "node-id"),
    (
        "slot-stats",
        -4,
        "loading stale",
        "8.2.0",
        "filter:<SLOTSRANGE slotsrange:(start-slot# end-slot#) |"
        " ORDERBY orderby:(metric [LIMIT limit#] [order:<ASC | DESC>])>",
    ),
    ("slots", 2, "loading stale", "3.0.0", ""),
]
CLUSTER = [
    Command(
        f"cluster|{name}",
        no_cluster,
        arity=arity,
        flags=flags,
        since=since,
        summary="Refused: there is no cluster mode.",
        syntax=syntax,
    )
    for name, arity, flags, since, syntax in CLUSTER_ROWS
]
MODULE = [
    help_row("module", since="5.0.0", line="    Print this help."),
    Command(
        "module|list",
        nothing,
        arity=2,
        flags="admin noscript",
        since="4.0.0",
        summary="Returns all loaded modules: none.",
        help=("LIST", "    Return a list of loaded modules."),
    ),
    Command(
        "module|load",
        no_modules,
        arity=-3,
        flags="admin noscript no_async_loading",
        since="4.0.0",
        summary="Refused: there are no modules.",
        syntax="path [arg...]",
        help=(
            "LOAD <path> [<arg> ...]",
            "    Load a module library from <path>, passing to it any optional arguments.",
        ),
    ),
    Command(
        "module|unload",
        no_modules,
        arity=3,
        flags="admin noscript no_async_loading",
        since="4.0.0",
        summary="Refused: there are no modules.",
        syntax="name",
        help=("UNLOAD <name>", "    Unload a module."),
    ),
]
SCRIPT = [
    Command(
        "script|exists",
        scripts_exist,
        arity=-3,
        flags="noscript",
        since="2.6.0",
        summary="Determines whether server-side scripts exist in the script cache: none do.",
        syntax="sha1...",
        help=(
            "EXISTS <sha1> [<sha1> ...]",
            "    Return information about the existence of the scripts in the script cache.",
        ),
    ),
    Command(
        "script|flush",
        flush_scripts,
        arity=-2,
        flags="noscript",
        since="2.6.0",
        summary="Removes all server-side scripts from the script cache, which is empty.",
        syntax="[flush-type:<ASYNC | SYNC>@6.2.0]",
        help=(
            "FLUSH [ASYNC|SYNC]",
            "    Flush the Lua scripts cache. Very dangerous on replicas.",
            *BY_DEFAULT,
            "    * ASYNC: Asynchronously flush the scripts cache.",
            "    * SYNC: Synchronously flush the scripts cache.",
        ),
    ),
    help_row("script", since="5.0.0", line="    Print this help."),
    Command(
        "script|kill",
        not_busy,
        arity=2,
        flags="noscript allow_busy",
        since="2.6.0",
        summary="Terminates a server-side script: none runs.",
        help=("KILL", "    Kill the currently executing Lua script."),
    ),
    Command(
        "script|load",
        no_scripts,
        arity=3,
        flags="noscript stale",
        since="2.6.0",
        summary="Refused: there are no scripts.",
        syntax="script",
        help=("LOAD <script>", "    Load a script into the scripts cache without executing it."),
    ),
]
FUNCTION = [
    Command(
        "function|delete",
        no_library,
        arity=3,
        flags="noscript write",
        categories="scripting write",
        since="7.0.0",
        summary="Deletes a library and its functions: there are none.",
        syntax="library-name",
        help=("DELETE <LIBRARY NAME>", "    Delete the given library."),
    ),
    Command(
        "function|flush",
        flush_functions,
        arity=-2,
        flags="noscript write",
        categories="scripting write",
        since="7.0.0",
        summary="Deletes all libraries and functions: there are none.",
        syntax="[flush-type:<ASYNC | SYNC>]",
        help=(
            "FLUSH [ASYNC|SYNC]",
            "    Delete all the libraries.",
            *BY_DEFAULT,
            "    * ASYNC: Asynchronously flush the libraries.",
            "    * SYNC: Synchronously flush the libraries.",
        ),
    ),
    help_row("function", since="7.0.0", line="    Print this help."),
    Command(
        "function|kill",
        not_busy,
        arity=2,
        flags="noscript allow_busy",
        since="7.0.0",
        summary="Terminates a function during execution: none runs.",
        help=("KILL", "    Kill the current running function."),
    ),
    Command(
        "function|list",
        list_functions,
        arity=-2,
        flags="noscript",
        since="7.0.0",
        summary="Returns information about all libraries: there are none.",
        syntax="[LIBRARYNAME library-name-pattern] [WITHCODE]",
        help=(
            "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
            "    Return general information on all the libraries:",
            "    * Library name",
            "    * The engine used to run the Library",
            "    * Functions list",
            "    * Library code (if WITHCODE is given)",
            "    It also possible to get only function that matches a pattern using LIBRARYNAME argument.",
        ),
    ),
    Command(
        "function|load",
        no_scripts,
        arity=-3,
        flags="noscript write denyoom",
        categories="scripting write",
        since="7.0.0",
        summary="Refused: there are no functions.",
        syntax="[REPLACE] function-code",
        help=("LOAD [REPLACE] <FUNCTION CODE>", "    Create a new library with the given library name and code."),
    ),
    Command(
        "function|stats",
        function_statistics,
        arity=2,
        flags="noscript allow_busy",
        since="7.0.0",
        summary="Returns information about a function during execution: none runs.",
        help=(
            "STATS",
            "    Return information about the current function running:",
            "    * Function name",
            "    * Command used to run the function",
            "    * Duration in MS that the function is running",
            "    If no function is running, return nil",
            "    In addition, returns a list of available engines.",
        ),
    ),
]


FUNCTION_HELP_ORDER = "load delete list stats kill flush"


def container(
    name: str, group: str, since: str, summary: str, subcommands: list[Command], help_order: str = ""
) -> Command:
    return Command(
        name, arity=-2, since=since, group=group, summary=summary, subcommands=subcommands, help_order=help_order
    )


def refused(name: str, flags: str) -> Command:
    return Command(
        name,
        no_cluster,
        arity=1,
        flags=flags,
        categories="connection",
        since="3.0.0",
        group="cluster",
        summary="Refused: there is no cluster mode.",
    )


COMMANDS: list[Command] = [
    container("cluster", "cluster", "3.0.0", "A container for Redis Cluster commands.", CLUSTER),
    refused("readonly", "loading stale fast"),
    refused("readwrite", "loading stale fast"),
    refused("asking", "fast"),
    container("module", "server", "4.0.0", "A container for module commands.", MODULE),
    container("script", "scripting", "2.6.0", "A container for Lua scripts management commands.", SCRIPT),
    container("function", "scripting", "7.0.0", "A container for function commands.", FUNCTION, FUNCTION_HELP_ORDER),
]
