"""What all calls share: the engine, the clock, the limits, the sealed cursors and the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from crdtstream.oci.cursors import LIFETIME_MS, Cursor, seal, unseal
from crdtstream.oci.engine import Engine
from crdtstream.oci.errors import OciError
from crdtstream.oci.injected_faults import Faults
from crdtstream.oci.limits import Quotas
from crdtstream.oci.registry import Registry
from crdtstream.oci.usage import Usage
from crdtstream.settings.config import REAL, Config

SECRET_KIND: Final = "secret"
SECRET_BYTES: Final = 32
ID_BYTES: Final = 8

RandomBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class GatewaySettings:
    """`signed`: requests need a signature of a known key. `tools`: /dev/clock and /dev/faults are served."""

    real_limits: bool = True
    partitions_max: int = 200
    signed: bool = False
    tools: bool = False

    @classmethod
    def of(cls, config: Config) -> GatewaySettings:
        real = config.oci_limits == REAL
        tools = not config.oci_keys and (config.oci_dev or not real)
        return cls(real, config.limits.oci_partitions_max, bool(config.oci_keys), tools)


class GatewayClock:
    """The time of the gateway: that of the region, and as far ahead of it as a test moved it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return self._now_ms() + self.ahead_ms


class Gateway:
    """One region's gateway."""

    def __init__(self, engine: Engine, settings: GatewaySettings, random_bytes: RandomBytes) -> None:
        self.engine = engine
        self.settings = settings
        self.random_bytes = random_bytes
        self.clock = GatewayClock(engine.now_ms)
        self.quotas = Quotas(settings.real_limits, settings.partitions_max)
        self.faults = Faults()
        self.registry = Registry(engine, self.clock.now_ms, random_bytes)
        self.usage = Usage()

    # Cursors

    async def sealed(self, cursor: Cursor) -> str:
        """The cursor as a text that expires in five minutes."""
        secret_id, secret = await self._secret()
        self.usage.record_cursor(cursor)
        return seal(cursor, self.clock.now_ms() + LIFETIME_MS, secret_id, secret)

    async def _secret(self) -> tuple[str, bytes]:
        """The one with the lowest ID, whatever regions made in the beginning; all others are still accepted."""
        secrets = self.engine.documents(SECRET_KIND)
        if not secrets:
            id, secret = self.random_bytes(ID_BYTES).hex(), self.random_bytes(SECRET_BYTES)
            await self.engine.write_document(SECRET_KIND, id, secret)
            return id, secret
        return min(secrets.items())

    def opened(self, text: str) -> Cursor:
        """Raises OciError."""
        try:
            secrets = self.engine.documents(SECRET_KIND)
            return unseal(text, secrets, self.clock.now_ms(), self.engine.misses_regions)
        except OciError:
            self.usage.cursors_refused += 1
            raise
