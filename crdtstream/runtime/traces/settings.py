"""Whether a region traces, and where its spans go. OpenTelemetry is imported only where they go anywhere.

`otel_endpoint` or the variables of OpenTelemetry's specification turn it on. All else (headers, certificates, sampling,
limits, attributes of the resource) comes from these variables, which the SDK reads itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import structlog

from crdtstream.settings.config import Config, ConfigError

if TYPE_CHECKING:
    from crdtstream.runtime.traces.tracing import Tracing

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
INSTALL: Final = "install what traces need with pip install 'crdtstream[otel]'"

logger = structlog.get_logger()


def open_tracing(config: Config, environment: Mapping[str, str]) -> Tracing | None:
    """Return None if no traces are wanted; raises ConfigError where the setting asks for them and the library is not
    installed.

    Variables are often meant for all processes of a machine, so they only earn a warning.
    """
    if not wants_traces(config, environment):
        return None
    try:
        from crdtstream.runtime.traces.tracing import Tracing, exporting_provider
    except ImportError as error:
        if config.otel_endpoint:
            raise ConfigError(f"{error}: {INSTALL}, or leave out --otel-endpoint") from error
        logger.warning("traces-off", reason=f"{error}: {INSTALL}, or set OTEL_SDK_DISABLED=true")
        return None
    return Tracing(exporting_provider(config))


def wants_traces(config: Config, environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if config.otel_endpoint:
        return True
    exporter = environment.get("OTEL_TRACES_EXPORTER", "otlp")
    return exporter == "otlp" and any(environment.get(name) for name in ENDPOINTS)
