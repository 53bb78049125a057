"""The settings as they are now: the one place that commands, sessions and the runtime read them from.

A `Config` is frozen, so a change replaces it; code that holds a reference to these settings sees the new values.
"""

from __future__ import annotations

from crdtstream.settings.config import Config, Limits


class Settings:
    """The current settings of one region; `limits` is the part of `config` that is read most. `harmless` are values of
    settings of Redis that have no effect here.
    """

    __slots__ = ("config", "harmless", "limits", "output_bytes_max", "turn_ms_max", "turn_reply_bytes_max")

    def __init__(self, config: Config) -> None:
        self.harmless: dict[str, str] = {}
        self.config = config
        self.limits: Limits = config.limits
        # Limits that every request needs: a `Config` is not compiled, so reading one there takes longer.
        self.output_bytes_max = 0
        self.turn_ms_max = 0
        self.turn_reply_bytes_max = 0
        self.change(config)

    def change(self, config: Config) -> None:
        """Go on with these settings; what cannot change while a region runs is the same in them."""
        self.config = config
        limits = self.limits = config.limits
        self.output_bytes_max = limits.output_bytes_max
        self.turn_ms_max = limits.turn_ms_max
        self.turn_reply_bytes_max = limits.turn_reply_bytes_max

    def password(self) -> bytes:
        """The password of the default user as the settings say it; empty: it needs none."""
        return self.config.requirepass.encode("utf-8", "surrogateescape")
