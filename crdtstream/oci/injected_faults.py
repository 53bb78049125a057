"""Injected errors and latencies: a client can be tried against them before it meets real ones.

A rule holds for one operation or for `*`; each request draws one number for each rule, from a generator with a seed, so
the same requests in the same order meet the same faults. The first rule that strikes decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from pydantic import Field

from crdtstream.oci.errors import NOT_FOUND_CODE, TOO_MANY_CODE, UNAVAILABLE_CODE, OciError
from crdtstream.oci.models import Body

EVERY: Final = "*"
CODES: Final = {
    400: "InvalidParameter",
    401: "NotAuthenticated",
    404: NOT_FOUND_CODE,
    409: "IncorrectState",
    429: TOO_MANY_CODE,
    500: "InternalServerError",
    503: UNAVAILABLE_CODE,
}
LATENCY_MS_MAX: Final = 600_000


class FaultRule(Body):
    """A status of 0 delays only."""

    operation: str = EVERY
    probability: float = Field(default=1.0, ge=0, le=1)
    status: int = 0
    latency_ms: int = Field(default=0, ge=0, le=LATENCY_MS_MAX)


class FaultRules(Body):
    seed: int = 0
    rules: list[FaultRule] = Field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one request: it waits, and is then answered with `error` unless that is None."""

    latency_ms: int
    error: OciError | None


class Faults:
    def __init__(self) -> None:
        self._rules: list[FaultRule] = []
        self._random = Random(0)

    def replace(self, rules: FaultRules) -> None:
        self._rules = rules.rules
        self._random = Random(rules.seed)

    def draw(self, operation: str) -> Fault | None:
        meant = [rule for rule in self._rules if rule.operation in (EVERY, operation)]
        struck = [rule for rule in meant if self._random.random() < rule.probability]
        return fault_of(struck[0], operation) if struck else None


def fault_of(rule: FaultRule, operation: str) -> Fault:
    if not rule.status:
        return Fault(rule.latency_ms, None)
    code = CODES.get(rule.status, "InjectedError")
    return Fault(rule.latency_ms, OciError(rule.status, code, f"an injected error of {operation}"))
