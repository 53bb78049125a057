"""The command line, and the only place where the parts are put together."""

from __future__ import annotations

import dataclasses
import signal
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from crdtstream import __version__, node
from crdtstream.admin.app import app as admin
from crdtstream.config import LIMITS_MIN, Config, ConfigError, Limits, validate
from crdtstream.demo.run import run_demo
from crdtstream.runtime.grpc_transport import TransportError
from crdtstream.runtime.logging import configure_logging
from crdtstream.runtime.loop import Loop, RegionFailed
from crdtstream.servers.resp_server import RespServer
from crdtstream.storage.disk import DiskError
from crdtstream.storage.recovery import LogError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)

app.add_typer(admin, name="admin")

USAGE_ERROR = 2
FAILURE = 1


def main() -> None:
    app()


@app.callback(invoke_without_command=True)
def root(version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False) -> None:
    """An active-active stream store: every region takes reads and writes over the Redis Streams protocol."""
    if version:
        typer.echo(f"crdtstream {__version__} ({core_kind()})")
        raise typer.Exit


def core_kind() -> str:
    """Whether layers 0-3 run as C extensions (see setup.py)."""
    return "interpreted core" if node.__file__.endswith(".py") else "compiled core"


@app.command()
def serve(
    config: Annotated[Path | None, typer.Option(help="TOML file; flags override it.")] = None,
    name: Annotated[str | None, typer.Option(help="Name of the region, for people.")] = None,
    region: Annotated[int | None, typer.Option(help="Number of the region, 1 to 255, different in each.")] = None,
    cluster: Annotated[str | None, typer.Option(help="Name of the cluster, the same in all regions.")] = None,
    bind: Annotated[str | None, typer.Option(help="Address of the Redis port.")] = None,
    port: Annotated[int | None, typer.Option(help="Redis port; 0 takes a free one.")] = None,
    replication_bind: Annotated[str | None, typer.Option(help="Address of the replication port.")] = None,
    replication_port: Annotated[int | None, typer.Option(help="gRPC port that the other regions dial.")] = None,
    peer: Annotated[list[str] | None, typer.Option(help="HOST:PORT of another region; repeat it.")] = None,
    data: Annotated[str | None, typer.Option(help="Data directory.")] = None,
    fsync: Annotated[str | None, typer.Option(help="always, everysec or no.")] = None,
    id_mode: Annotated[
        str | None, typer.Option(help="strict, semi-strict or liberal; the same in all regions.")
    ] = None,
    incarnation: Annotated[int | None, typer.Option(help="Incarnation of a new data directory.")] = None,
    requirepass: Annotated[str | None, typer.Option(help="Password of the Redis port.")] = None,
    protected_mode: Annotated[bool | None, typer.Option(help="Refuse strangers while there is no password.")] = None,
    tls_certificate: Annotated[str | None, typer.Option(help="Certificate of this node (PEM file).")] = None,
    tls_key: Annotated[str | None, typer.Option(help="Its private key (PEM file).")] = None,
    tls_authority: Annotated[str | None, typer.Option(help="Authority that signs all nodes (PEM file).")] = None,
    insecure_replication: Annotated[bool | None, typer.Option(help="Replicate without TLS beyond loopback.")] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Validate the settings and exit.")] = False,
) -> None:
    """Run one region until SIGTERM."""
    flags = {
        key: value for key, value in locals().items() if key not in ("config", "peer", "check") and value is not None
    }
    if peer:
        flags["peers"] = tuple(peer)
    try:
        settings = load_config(config, flags)
    except ConfigError as error:
        fail(str(error), USAGE_ERROR)
    if check:
        typer.echo("The settings are valid.")
        return
    run_region(settings)


@app.command()
def demo(
    once: Annotated[bool, typer.Option("--once", help="Exit when all is told: 0 when everything held.")] = False,
    port_base: Annotated[
        int, typer.Option(min=0, max=65532, help="Redis ports PORT_BASE+1, +2 and +3; 0 takes free ones.")
    ] = 0,
) -> None:
    """Run three regions on this machine, tell their stories, and keep them for redis-cli until Ctrl-C."""
    raise typer.Exit(run_demo(once, port_base))


def load_config(path: Path | None, flags: dict[str, Any]) -> Config:
    """The TOML file, overridden by flags; raises ConfigError."""
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
    refuse_wrong_types(settings)
    # Absolute, because CONFIG REWRITE and INFO name it later.
    config_file = "" if path is None else str(path.absolute())
    config = Config(**settings, limits=Limits(**limits), config_file=config_file)
    validate(config)
    return config


def peer_addresses(value: object) -> tuple[str, ...]:
    """From flags a tuple, from TOML a list."""
    if isinstance(value, tuple | list) and all(isinstance(peer, str) for peer in value):
        return tuple(value)
    raise ConfigError(f'peers must be a list of texts, ["HOST:PORT", ...], not {value!r}')


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
    configure_logging(config)
    try:
        loop = Loop(config, RespServer)
        uvloop.run(run_until_signal(loop))
    except ConfigError as error:
        fail(str(error), USAGE_ERROR)
    except (LogError, DiskError, RegionFailed, TransportError, OSError) as error:
        fail(str(error), FAILURE)


async def run_until_signal(loop: Loop) -> None:
    import asyncio

    running = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        running.add_signal_handler(number, loop.stop)
    await loop.run()


def fail(text: str, code: int) -> None:
    typer.echo(f"crdtstream: {text}", err=True)
    sys.exit(code)
