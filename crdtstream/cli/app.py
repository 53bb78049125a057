"""The command line, and the only place where all parts are composed."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import structlog
import typer
import uvloop

from crdtstream import __version__
from crdtstream.admin.app import app as admin
from crdtstream.admin.backing_up import back_up, restore
from crdtstream.cli.flags import SettingsCommand, with_setting_flags
from crdtstream.cli.size import size
from crdtstream.dashboard.command import dashboard
from crdtstream.migration.app import export_streams, import_streams
from crdtstream.region import node
from crdtstream.runtime.build import build
from crdtstream.runtime.checking import problems_of
from crdtstream.runtime.links.grpc_transport import TransportError
from crdtstream.runtime.logs import library_logs
from crdtstream.runtime.logs.grpc_output import ForeignOutput
from crdtstream.runtime.logs.logging import configure_logging
from crdtstream.runtime.loop import Loop
from crdtstream.runtime.ports import GatewayPort
from crdtstream.runtime.redis.resp_server import RespServer
from crdtstream.runtime.shard_place import DIRECTORY_REFUSED, DirectoryRefused
from crdtstream.runtime.traces.settings import open_tracing
from crdtstream.runtime.turns import RegionFailed
from crdtstream.settings.config import CONSOLE, Config, ConfigError
from crdtstream.settings.handing_on import decoded
from crdtstream.settings.rewriting import Values
from crdtstream.settings.sample import sample
from crdtstream.settings.secrets import with_secrets
from crdtstream.settings.sharding import here, of_shard
from crdtstream.settings.sources import Sources, values_of_flags
from crdtstream.settings.table import SHARD_REPLACES, SHARD_SETTINGS
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogError
from crdtstream.storage.segment import FormatUnknown
from crdtstream.supervisor.founding import founding_problems, refuse_shards
from crdtstream.supervisor.supervisor import Supervisor, own_command
from crdtstream.supervisor.tether import shard_number, tie

if TYPE_CHECKING:
    from crdtstream.runtime.traces.tracing import Tracing

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
settings_app = typer.Typer(no_args_is_help=True, help="Settings of a region.")

app.add_typer(admin, name="admin")
app.add_typer(settings_app, name="config")
app.command("import")(import_streams)
app.command("export")(export_streams)
app.command("backup")(back_up)
app.command("restore")(restore)
app.command("size")(size)
app.command("dashboard")(dashboard)

USAGE_ERROR = 2
FAILURE = 1
SOURCES = (
    "Every setting can be given as a flag, as a variable (CRDTSTREAM_ and its name: CRDTSTREAM_PORT), or in the file; a"
    " flag overrides a variable, and a variable the file. The password comes from CRDTSTREAM_REQUIREPASS, the file, or"
    " --requirepass-file."
)

logger = structlog.get_logger()


def main() -> None:
    app()


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """An active-active stream store: every region serves reads and writes over the Redis Streams protocol."""
    if version:
        commit, date = build()
        typer.echo(f"crdtstream {__version__} ({core_kind()}), commit {commit} of {date}")
        raise typer.Exit


def core_kind() -> str:
    """Whether layers 0-3 run as C extensions (see setup.py)."""
    return "interpreted core" if node.__file__.endswith(".py") else "compiled core"


@app.command(epilog=SOURCES, cls=SettingsCommand)
@with_setting_flags(sys.argv[1:])
def serve(
    config: Annotated[
        Path | None, typer.Option(envvar="CRDTSTREAM_CONFIG", help="TOML file with settings: crdtstream config sample.")
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Check settings, files, peers and data directory, and exit: 0 if all work.")
    ] = False,
    **given: Any,
) -> None:
    """Run one region until SIGTERM."""
    try:
        shard, handed = shard_number(os.environ), decoded(os.environ.get(SHARD_SETTINGS, "{}"))
        tie(os.environ)
        sources = Sources(config, values_of_flags(given), os.environ)
        if shard is None:
            settings, load = sources.load(), sources.load
        else:
            settings, load = shard_settings(sources, shard, handed), partial(shard_settings, sources, shard)
        refuse_shards(settings)
    except ConfigError as error:
        fail(str(error), USAGE_ERROR)
    except DiskError as error:
        fail(str(error), FAILURE)
    if check:
        check_region(settings)
    elif settings.shards > 1 and shard is None:
        run_shards(settings, load)
    else:
        run_region(settings, None if sources.path is None else load)


def shard_settings(sources: Sources, shard: int, handed: Values | None = None) -> Config:
    """Its supervisor says whether this process takes over, and hands on what changes at a start only."""
    try:
        loaded = sources.load(handed)
    except ConfigError as error:
        if not handed:
            raise
        raise ConfigError(
            f"{error}; settings that change at a start are as the supervisor has them, and all others as the file has"
            " them now: correct it, or start the supervisor again"
        ) from error
    return replace(of_shard(loaded, shard), replace=SHARD_REPLACES in os.environ)


@settings_app.command("sample")
def print_sample() -> None:
    """Print a commented TOML file with every setting and its default."""
    typer.echo(sample(), nl=False)


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit after the stories: 0 if everything held.")] = False,
    port_base: Annotated[
        int, typer.Option(min=0, max=65532, help="Redis ports PORT_BASE+1, +2 and +3; 0 selects free ones.")
    ] = 0,
    shards: Annotated[int, typer.Option(min=1, max=8, help="Shards of each region: ports follow each other.")] = 1,
    spark: Annotated[
        bool, typer.Option("--spark", help="Instead: archive and audit regions under load with Spark, then exit.")
    ] = False,
    master: Annotated[str, typer.Option(help="With --spark: the URL of the Spark master.")] = "local[2,4]",
    keep: Annotated[
        Path | None,
        typer.Option(help="With --spark: an empty directory for the archive and the replies that clients got."),
    ] = None,
    load: Annotated[
        bool, typer.Option("--load", help="Add entries and read groups in all regions while they stay up.")
    ] = False,
    node: Annotated[
        list[str] | None,
        typer.Option(
            help="With --load: HOST:PORT of a region that runs already; no region is started.", show_default=False
        ),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.01, max=1_000, help="With --load: entries a second in each region.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="With --load: another seed gives other entries.")] = 1,
) -> None:
    """Run three regions on this machine, play their stories, and keep them running for redis-cli until Ctrl-C."""
    # Imported only here: a region starts without it, and sooner.
    from crdtstream.demo.run import run_demo

    if load and node:
        from crdtstream.demo.load import run_load

        raise typer.Exit(run_load(node, seed, rate))
    raise typer.Exit(run_demo(once, port_base, spark=master if spark else "", keep=keep, loads=load, shards=shards))


@app.command(
    "spark",
    add_help_option=False,
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False},
)
def spark_jobs(context: typer.Context) -> None:
    """Archive, audit, load, replay and report on streams with Spark: see crdtstream spark --help."""
    # Imported only here: a region starts without it, and sooner.
    from crdtstream.spark.app import main as jobs

    jobs(context.args)


def run_shards(config: Config, load: Callable[[], Config]) -> None:
    """Run the supervisor of a region of several shards."""
    configure_logging(replace(config, shard=""))
    try:
        code = asyncio.run(Supervisor(config, load, own_command()).run())
    except ConfigError as error:
        end(str(error), USAGE_ERROR)
    except OSError as error:
        end(str(error), FAILURE)
    sys.exit(code)


def run_region(config: Config, load: Callable[[], Config] | None) -> None:
    """Run the node of a region, or of one of its shards; `load` reads its settings again, if they are in a file."""
    # A start may be killed at any moment. Compiled code would see Ctrl-C only once everything is read.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if config.log_format == CONSOLE:
        library_logs.capture(config)
    with nullcontext() if config.log_format == CONSOLE else ForeignOutput():
        configure_logging(config)
        try:
            reread = None if load is None else lambda: with_secrets(load())
            with tracing_of(config) as tracing:
                make_port = RespServer if tracing is None else tracing.port
                loop = Loop(with_secrets(config), make_port, gateway_maker(config), reread, tracing)
                uvloop.run(run_until_signal(loop))
        except ConfigError as error:
            end(str(error), DIRECTORY_REFUSED if isinstance(error, DirectoryRefused) else USAGE_ERROR)
        except (LogError, DiskError, FormatUnknown, RegionFailed, TransportError, OSError) as error:
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
    """Of several shards, those that run here."""
    if config.shards == 1:
        problems = problems_of(config)
    else:
        found = [problem for number in here(config) for problem in problems_of(of_shard(config, number))]
        problems = list(dict.fromkeys([*founding_problems(config), *found]))
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
