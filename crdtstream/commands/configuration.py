"""CONFIG GET, SET, REWRITE and RESETSTAT: settings at run time.

SET takes several pairs and applies all of them or none. REWRITE asks the runtime to write the file that the region was
started from, and replies when that is done.

Reference: `configGetCommand`, `configSetCommand` and `rewriteConfig` of Redis.
"""

from __future__ import annotations

from crdtstream.commands.settings import IMMUTABLE, SETTINGS, Setting, SettingError, changed, keep_harmless, meant
from crdtstream.connections.client import Client
from crdtstream.connections.command import Command, help_row
from crdtstream.connections.context import CommandError, Context, Reply, Waiter, shown
from crdtstream.connections.parking import NO_DEADLINE
from crdtstream.connections.statistics import Statistics
from crdtstream.protocols import replies
from crdtstream.protocols.glob import matches, tokens_of
from crdtstream.settings.config import ConfigError, refuse_exposure, validate_limits

WILD = b"*?[\\"
SHARED_FILE = (
    "ERR CONFIG REWRITE is refused, because all shards of a region read one settings file: change the file, then send"
    " SIGHUP to the supervisor"
)


def get(context: Context, client: Client, argv: list[bytes]) -> Reply:
    """CONFIG GET: each setting once; a setting requested by its full name is returned in the caller's spelling. A
    secret can be set, and is never shown.
    """
    found: dict[str, bytes] = {}
    for pattern in argv[2:]:
        for name in matching(pattern.lower()):
            found.setdefault(name, pattern if pattern.lower() == name.encode() else name.encode())
    items: list[bytes] = []
    for name, called in found.items():
        value = SETTINGS[name].shown(context).encode("utf-8", "surrogateescape")
        items += [replies.bulk(called), replies.bulk(value)]
    return replies.mapping(items, client.protocol)


def matching(pattern: bytes) -> list[str]:
    if not any(byte in WILD for byte in pattern):
        name = shown(pattern)
        return [name] if name in SETTINGS and not SETTINGS[name].secret else []
    tokens = tokens_of(pattern)
    return [name for name, setting in SETTINGS.items() if not setting.secret and matches(tokens, name.encode())]


def set_values(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if len(argv) % 2:
        raise CommandError("ERR syntax error")
    chosen: dict[str, Setting] = {}
    for name in argv[2::2]:
        setting = SETTINGS.get(shown(name.lower()))
        if setting is None:
            unknown = f"ERR Unknown option or number of arguments for CONFIG SET - '{shown(name)}'"
            raise CommandError(unknown + meant(shown(name.lower())))
        if not setting.settable:
            raise failed(setting, IMMUTABLE)
        if setting.name in chosen:
            raise failed(setting, "duplicate parameter")
        chosen[setting.name] = setting
    values: list[tuple[Setting, object]] = []
    for setting, text in zip(chosen.values(), argv[3::2], strict=True):
        try:
            values.append((setting, setting.parse(text)))
        except SettingError as error:
            raise failed(setting, str(error)) from error
    for setting, value in values:
        refuse_impossible(context, setting, value)
    config = changed(context.settings.config, values)
    try:
        validate_limits(config.limits)
        if config.peers != context.settings.config.peers:
            refuse_exposure(config)
    except ConfigError as fault:
        raise CommandError(f"ERR CONFIG SET failed - {fault}") from fault
    context.reconfigure(config)
    keep_harmless(context, values)
    return replies.OK


def refuse_impossible(context: Context, setting: Setting, value: object) -> None:
    """Refuse what this process could not keep, in the words of Redis."""
    possible = context.about.clients_possible
    if setting.field == "clients_max" and possible and isinstance(value, int) and value > possible:
        text = "The operating system is not able to handle the specified number of clients, try with"
        raise failed(setting, f"{text} {possible}")


def failed(setting: Setting, reason: str) -> CommandError:
    return CommandError(f"ERR CONFIG SET failed (possibly related to argument '{setting.name}') - {reason}")


def reset_statistics(context: Context, client: Client, argv: list[bytes]) -> Reply:
    context.statistics = Statistics()
    return replies.OK


class RewriteWaiter(Waiter):
    """A client that waits until the settings file is written."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, [], NO_DEADLINE)

    def serve(self, context: Context) -> bytes | None:
        if context.requests.rewrite:
            return None
        if context.requests.rewrite_failure:
            raise CommandError(f"ERR Rewriting config file: {context.requests.rewrite_failure}")
        return replies.OK

    def expired(self, context: Context) -> bytes:
        return replies.error(b"ERR the wait ended early: check whether the config file has been rewritten")


def rewrite(context: Context, client: Client, argv: list[bytes]) -> Reply:
    if context.shards is not None:
        raise CommandError(SHARED_FILE)
    if not context.settings.config.config_file:
        raise CommandError("ERR The server is running without a config file")
    context.park(RewriteWaiter(client))
    context.requests.rewrite = True
    return None


CONFIG = [
    Command(
        "config|get",
        get,
        arity=-3,
        flags="admin noscript loading stale",
        since="2.0.0",
        summary="Returns the effective values of configuration parameters.",
        syntax="parameter...",
        help=("GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values."),
    ),
    help_row("config", since="5.0.0", line="    Print this help."),
    Command(
        "config|resetstat",
        reset_statistics,
        arity=2,
        flags="admin noscript loading stale",
        since="2.0.0",
        summary="Resets the server's statistics.",
        help=("RESETSTAT", "    Reset statistics reported by the INFO command."),
    ),
    Command(
        "config|rewrite",
        rewrite,
        arity=2,
        flags="admin noscript loading stale no_multi",
        since="2.8.0",
        summary="Persists the effective configuration to file.",
        help=("REWRITE", "    Rewrite the configuration file."),
    ),
    Command(
        "config|set",
        set_values,
        arity=-4,
        flags="admin noscript loading stale",
        since="2.0.0",
        summary="Sets configuration parameters in-flight.",
        syntax="data:(parameter value)...",
        help=("SET <directive> <value>", "    Set the configuration <directive> to <value>."),
    ),
]
COMMANDS: list[Command] = [
    Command(
        "config",
        arity=-2,
        since="2.0.0",
        group="server",
        summary="A container for server configuration commands.",
        subcommands=CONFIG,
        help_order="get set resetstat rewrite",
    ),
]
