"""The settings that a supervisor hands on to its shards, as one text, so that an edited file never puts a shard at odds
with the map: those that change at a start only, as the supervisor was started with them, and where the shards are, as
it last took them. All others a shard takes from the file, the password and the file that it comes from as one setting.
"""

from __future__ import annotations

import json

from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.table import KNOWN, PASSWORD, SHARD_SETTINGS, value_of


def encoded(config: Config) -> str:
    kept = [known for known in KNOWN.values() if not known.is_live and known.field not in PASSWORD]
    return json.dumps({known.field: value_of(known, config) for known in kept})


def decoded(text: str) -> dict[str, object]:
    """Raises ConfigError for what no supervisor wrote. Settings that another release has are left out."""
    try:
        values = dict(json.loads(text).items())
    except (ValueError, AttributeError) as error:
        raise ConfigError(f"the variable {SHARD_SETTINGS} is for a supervisor alone: do not set it") from error
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items() if name in KNOWN}
