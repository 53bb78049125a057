"""The command line, and the only place where all parts are composed."""

from __future__ import annotations

import dataclasses
import os
import signal
import sys
import tomllib
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import structlog
import typer
import uvloop

from crdtstream import __version__, node
from crdtstream.admin.app import app as admin
from crdtstream.admin.backing_up import back_up, restore
from crdtstream.config import CONSOLE, LIMITS_MIN, Config, ConfigError, Limits, validate
from crdtstream.demo.run import run_demo
from crdtstream.migration.app import export_streams, import_streams
from crdtstream.runtime import core_log
from crdtstream.runtime.checking import problems_of
from crdtstream.runtime.foreign_output import ForeignOutput
from crdtstream.runtime.grpc_transport import TransportError
from crdtstream.runtime.logging import configure_logging
from crdtstream.runtime.loop import Loop, RegionFailed
from crdtstream.runtime.ports import GatewayPort
from crdtstream.runtime.resp_server import RespServer
from crdtstream.runtime.secret_files import with_secrets
from crdtstream.runtime.trace_settings import open_tracing
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogError

if TYPE_CHECKING:
    from crdtstream.runtime.tracing import Tracing

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

app.add_typer(admin, name="admin")
app.command("import")(import_streams)
app.command("export")(export_streams)
app.command("backup")(back_up)
app.command("restore")(restore)

USAGE_ERROR = 2
# There are no flags for secrets, because ps would show them.
PASSWORD_VARIABLE = "CRDTSTREAM_REQUIREPASS"
TOKEN_VARIABLE = "CRDTSTREAM_HTTP_TOKEN"
FAILURE = 1

logger = structlog.get_logger()


def main() -> None:
    app()


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """An active-active stream store: every region serves reads and writes over the Redis Streams protocol."""
    if version:
        typer.echo(f"crdtstream {__version__} ({core_kind()})")
        raise typer.Exit


def core_kind() -> str:
    """Whether layers 0-3 run as C extensions (see setup.py)."""
    return "interpreted core" if node.__file__.endswith(".py") else "compiled core"


# Options of `serve` that take more than a line.
Port = Annotated[int | None, typer.Option(help="Redis port; 0 selects a free one, or none if there is a TLS port.")]
TlsAuthClients = Annotated[
    str | None, typer.Option(help="Whether clients of TLS ports need a certificate: yes, no or optional.")
]
TlsCertFile = Annotated[
    str | None, typer.Option(help="Certificate of the TLS ports for clients, if not that of replication (PEM).")
]
TlsCaCertFile = Annotated[
    str | None, typer.Option(help="Authority of the certificates of clients, if not that of replication (PEM).")
]
BulkPort = Annotated[
    int | None, typer.Option(help="gRPC port for moving many entries; off unless given, 0 selects a free one.")
]
HttpPort = Annotated[
    int | None, typer.Option(help="HTTP port for metrics and health; off unless given, 0 selects a free one.")
]
OciBind = Annotated[str | None, typer.Option(help="Address of the port for clients of OCI Streaming.")]
OciPort = Annotated[
    int | None, typer.Option(help="HTTP port for clients of OCI Streaming; off unless given, 0 selects a free one.")
]
OciKeys = Annotated[
    str | None, typer.Option(help="TOML file with public keys of users; without it any signature is accepted.")
]
OciLimits = Annotated[str | None, typer.Option(help="real: the limits of OCI's service; off: none.")]
OciDev = Annotated[bool | None, typer.Option(help="Serve /dev/clock and /dev/faults for tests.")]
OciTls = Annotated[bool | None, typer.Option(help="TLS on the port for clients of OCI Streaming.")]
InsecureOci = Annotated[bool | None, typer.Option(help="Serve clients of OCI Streaming without TLS beyond loopback.")]
HttpTls = Annotated[bool | None, typer.Option(help="TLS on the HTTP port.")]
HttpTokenFile = Annotated[
    str | None, typer.Option(help="File that contains the token that /metrics asks for, one line.")
]
InsecureHttp = Annotated[bool | None, typer.Option(help="Serve metrics without TLS or a token beyond loopback.")]
InitStreams = Annotated[
    str | None, typer.Option(help="NAME:PARTITIONS[,...]: streams for clients of OCI that a start creates.")
]
IdMode = Annotated[str | None, typer.Option(help="strict, semi-strict or liberal; the same in all regions.")]
Incarnation = Annotated[
    int | None, typer.Option(help="Any number: serve from a new data directory without waiting for peers.")
]
Aclfile = Annotated[str | None, typer.Option(help="File with users, read at the start, and by ACL LOAD and ACL SAVE.")]
ProtectedMode = Annotated[
    bool | None, typer.Option(help="Reject clients from beyond loopback while no password is set.")
]
Check = Annotated[
    bool, typer.Option("--check", help="Check settings, files, peers and data directory, and exit: 0 if all work.")
]
OtelEndpoint = Annotated[
    str | None, typer.Option(help="URL of an OTLP collector, to which traces are sent; none are made unless given.")
]
AllowRegion = Annotated[
    list[int] | None, typer.Option(help="Region that may connect without being a peer, by number; may be repeated.")
]
ReplicationSecretFile = Annotated[
    str | None, typer.Option(help="File that contains the secret shared by all regions, one line.")
]


@app.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="TOML file with settings; flags override it.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the region, for people.")] = None,
    region: Annotated[int | None, typer.Option(help="Number of the region, 1 to 255, unique in the cluster.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster, the same in all regions.")] = None,
    bind: Annotated[str | None, typer.Option(help="Address of the Redis port.")] = None,
    port: Port = None,
    tls_port: Annotated[int | None, typer.Option(help="Redis port with TLS; off unless given.")] = None,
    tls_auth_clients: TlsAuthClients = None,
    tls_cert_file: TlsCertFile = None,
    tls_key_file: Annotated[str | None, typer.Option(help="Its private key (PEM file).")] = None,
    tls_ca_cert_file: TlsCaCertFile = None,
    replication_bind: Annotated[str | None, typer.Option(help="Address of the replication port.")] = None,
    replication_port: Annotated[int | None, typer.Option(help="gRPC port that the other regions dial.")] = None,
    bulk_bind: Annotated[str | None, typer.Option(help="Address of the bulk port.")] = None,
    bulk_port: BulkPort = None,
    oci_bind: OciBind = None,
    oci_port: OciPort = None,
    oci_keys: OciKeys = None,
    oci_limits: OciLimits = None,
    oci_dev: OciDev = None,
    oci_tls: OciTls = None,
    insecure_oci: InsecureOci = None,
    init_streams: InitStreams = None,
    bulk_tls: Annotated[bool | None, typer.Option(help="TLS on the bulk port, as on the TLS port.")] = None,
    http_bind: Annotated[str | None, typer.Option(help="Address of the HTTP port.")] = None,
    http_port: HttpPort = None,
    http_tls: HttpTls = None,
    http_token_file: HttpTokenFile = None,
    insecure_http: InsecureHttp = None,
    peer: Annotated[list[str] | None, typer.Option(help="HOST:PORT of another region; may be repeated.")] = None,
    data: Annotated[str | None, typer.Option(help="Data directory.")] = None,
    backup_directory: Annotated[
        str | None, typer.Option(help="Directory below which backups may be written; none unless given.")
    ] = None,
    fsync: Annotated[str | None, typer.Option(help="always, everysec or no.")] = None,
    id_mode: IdMode = None,
    incarnation: Incarnation = None,
    replace: Annotated[bool | None, typer.Option(help="No other process of this region runs: take over now.")] = None,
    requirepass_file: Annotated[str | None, typer.Option(help="File that contains the password, one line.")] = None,
    aclfile: Aclfile = None,
    protected_mode: ProtectedMode = None,
    tls_certificate: Annotated[str | None, typer.Option(help="Certificate of this node (PEM file).")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its private key (PEM file).")] = None,
    tls_authority: Annotated[str | None, typer.Option(help="Authority that signs all certificates (PEM file).")] = None,
    insecure_replication: Annotated[bool | None, typer.Option(help="Replicate without TLS beyond loopback.")] = None,
    allow_region: AllowRegion = None,
    replication_secret_file: ReplicationSecretFile = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    log_format: Annotated[str | None, typer.Option(help="logfmt, json, or console for people.")] = None,
    otel_endpoint: OtelEndpoint = None,
    check: Check = False,
) -> None:
    """Run one region until SIGTERM."""
    settings = settings_of(config, dict(locals()))
    (check_region if check else run_region)(settings)


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the stories: 0 if everything held.")] = False,
    port_base: Annotated[
        int, typer.Option(min=0, max=65532, help="Redis ports PORT_BASE+1, +2 and +3; 0 selects free ones.")
    ] = 0,
    spark: Annotated[
        bool, typer.Option("--spark", help="Instead: archive and audit regions under load with Spark, then exit.")
    ] = False,
    master: Annotated[str, typer.Option(help="With --spark: the URL of the Spark master.")] = "local[2,4]",
    keep: Annotated[
        Path | None,
        typer.Option(help="With --spark: an empty directory for the archive and the replies that clients got."),
    ] = None,
) -> None:
    """Run three regions on this machine, play their stories, and keep them running for redis-cli until Ctrl-C."""
    raise typer.Exit(run_demo(once, port_base, spark=master if spark else "", keep=keep))


@app.command(
    "spark",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def spark_jobs(context: typer.Context) -> None:
    """Archive, audit, load, replay and report on streams with Spark: see crdtstream spark --help."""
    # Imported only here: the extra may not be installed, and the import is slow.
    try:
        from crdtstream.spark.app import main as jobs
    except ImportError as error:
        fail(f"{error}: install the Spark jobs with pip install 'crdtstream[spark]', and Java 17", USAGE_ERROR)
    jobs(context.args)


def settings_of(path: Path | None, given: dict[str, Any]) -> Config:
    """The settings of the file and of the options of `serve`; ends the process if they cannot work."""
    unlike = ("config", "peer", "allow_region", "check")
    flags = {key: value for key, value in given.items() if key not in unlike and value is not None}
    if PASSWORD_VARIABLE in os.environ:
        flags["requirepass"] = os.environ[PASSWORD_VARIABLE]
    if TOKEN_VARIABLE in os.environ:
        flags["http_token"] = os.environ[TOKEN_VARIABLE]
    if given["peer"]:
        flags["peers"] = tuple(given["peer"])
    if given["allow_region"]:
        flags["allowed_regions"] = tuple(given["allow_region"])
    try:
        return load_config(path, flags)
    except ConfigError as error:
        fail(str(error), USAGE_ERROR)


def load_config(path: Path | None, flags: dict[str, Any]) -> Config:
    """The settings of the TOML file, overridden by flags; raises ConfigError."""
    settings = read_toml(path) if path is not None else {}
    settings.update(flags)
    limits = settings.pop("limits", {})
    if type(limits) is not dict:
        raise ConfigError(f"limits must be a table, [limits], not {limits!r}")
    known = {field.name for field in dataclasses.fields(Config)} - {"config_file", "limits"}
    refuse_unknown(settings, known, "setting")
    refuse_unknown(limits, {field.name for field in dataclasses.fields(Limits)}, "limit")
    missing = [key for key in ("name", "region", "cluster") if key not in settings]
    if missing:
        raise ConfigError(f"missing: {', '.join('--' + key for key in missing)}")
    for limit, value in limits.items():
        if type(value) is not int or value < min(0, LIMITS_MIN.get(limit, 0)):
            raise ConfigError(f"limit {limit} must be a whole number that is not negative, not {value!r}")
    if "peers" in settings:
        settings["peers"] = peer_addresses(settings["peers"])
    if "allowed_regions" in settings:
        settings["allowed_regions"] = region_numbers(settings["allowed_regions"])
    refuse_wrong_types(settings)
    # Absolute, because CONFIG REWRITE and INFO use it later, perhaps from another working directory.
    config_file = "" if path is None else str(path.absolute())
    config = Config(**settings, limits=Limits(**limits), config_file=config_file)
    validate(config)
    return config


def peer_addresses(value: object) -> tuple[str, ...]:
    """The peers as a tuple: flags give a tuple, TOML gives a list."""
    if isinstance(value, tuple | list) and all(isinstance(peer, str) for peer in value):
        return tuple(value)
    raise ConfigError(f'peers must be a list of strings, ["HOST:PORT", ...], not {value!r}')


def region_numbers(value: object) -> tuple[int, ...]:
    if isinstance(value, tuple | list) and all(type(region) is int for region in value):
        return tuple(value)
    raise ConfigError(f"allowed_regions must be a list of region numbers, [1, 2], not {value!r}")


def read_toml(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        return {key.replace("-", "_"): value for key, value in tomllib.loads(text).items()}
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def refuse_unknown(settings: dict[str, Any], known: set[str], what: str) -> None:
    unknown = sorted(set(settings) - known)
    if unknown:
        raise ConfigError(f"unknown {what} {unknown[0]!r}; known are: {', '.join(sorted(known))}")


def refuse_wrong_types(settings: dict[str, Any]) -> None:
    for field in dataclasses.fields(Config):
        value = settings.get(field.name)
        expected = {"str": str, "int": int, "int | None": int, "bool": bool, "tuple[str, ...]": tuple}.get(
            str(field.type)
        )
        if value is not None and expected is not None and type(value) is not expected:
            raise ConfigError(f"{field.name} must be {expected.__name__}, not {value!r}")


def run_region(config: Config) -> None:
    if config.log_format == CONSOLE:
        core_log.capture(config)
    with nullcontext() if config.log_format == CONSOLE else ForeignOutput():
        configure_logging(config)
        try:
            with tracing_of(config) as tracing:
                make_port = RespServer if tracing is None else tracing.port
                loop = Loop(with_secrets(config), make_port, gateway_maker(config), tracing)
                uvloop.run(run_until_signal(loop))
        except ConfigError as error:
            end(str(error), USAGE_ERROR)
        except (LogError, DiskError, RegionFailed, TransportError, OSError) as error:
            end(str(error), FAILURE)


def tracing_of(config: Config) -> AbstractContextManager[Tracing | None]:
    """The region's traces, which are sent before the context ends; raises ConfigError."""
    tracing = open_tracing(config, os.environ)
    return nullcontext() if tracing is None else closing(tracing)


def check_tracing(config: Config) -> None:
    with tracing_of(config):
        pass


def gateway_maker(config: Config) -> Callable[[Loop], GatewayPort] | None:
    """Create the gateway for clients of OCI Streaming; raises ConfigError. None if no port is given."""
    if config.oci_port is None:
        return None
    # Imported only here: the extra may not be installed, and the import takes a while.
    try:
        from crdtstream.oci.server import OciServer, check
    except ImportError as error:
        raise ConfigError(f"{error}: install what --oci-port needs with pip install 'crdtstream[oci]'") from error
    check(config)
    return lambda loop: OciServer(loop.config, loop.partitions, loop.web_certificates)


def check_region(config: Config) -> None:
    problems = problems_of(config)
    for try_out in (gateway_maker, check_tracing):
        try:
            try_out(config)
        except ConfigError as error:
            problems.append(str(error))
    for problem in problems:
        typer.echo(f"crdtstream: {problem}", err=True)
    if problems:
        sys.exit(FAILURE)
    typer.echo("The settings are valid.")


async def run_until_signal(loop: Loop) -> None:
    import asyncio

    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, loop.stop)
    running.add_signal_handler(signal.SIGHUP, loop.reload)
    await loop.run()


def end(reason: str, code: int) -> NoReturn:
    """End `serve`; the log has the reason as an event, as all that it has."""
    logger.error("exit", reason=reason, code=code)
    sys.exit(code)


def fail(text: str, code: int) -> NoReturn:
    typer.echo(f"crdtstream: {text}", err=True)
    sys.exit(code)
