"""The settings as they are now: the one place that commands, sessions and the runtime read them from.

A `Config` is frozen, so a change replaces it; code that holds a reference to these settings sees the new values.
"""

from __future__ import annotations

from crdtstream.config import Config, Limits


class Settings:
    """The current settings of one region; `limits` and `password` are parts of `config` in the form that is read.
    `harmless` are values that were given to settings of Redis which have no effect here.
    """

    __slots__ = ("config", "harmless", "limits", "password")

    def __init__(self, config: Config) -> None:
        self.config = config
        self.limits: Limits = config.limits
        self.password = b""
        self.harmless: dict[str, str] = {}
        self.change(config)

    def change(self, config: Config) -> None:
        """Go on with these settings; what cannot change while a region runs is the same in them."""
        self.config = config
        self.limits = config.limits
        self.password = config.requirepass.encode("utf-8", "surrogateescape")
