"""Injected faults: the same seed strikes the same requests."""

from __future__ import annotations

import pytest

from crdtstream.oci.errors import OciError
from crdtstream.oci.injected_faults import Fault, FaultRules, Faults
from crdtstream.oci.models import parsed


def faults(text: bytes) -> Faults:
    made = Faults()
    made.replace(parsed(FaultRules, text))
    return made


def test_nothing_strikes_without_rules() -> None:
    assert Faults().draw("GetMessages") is None


def test_an_operation_is_struck_and_others_are_not() -> None:
    made = faults(b'{"rules":[{"operation":"GetMessages","status":429,"latencyMs":5}]}')
    fault = made.draw("GetMessages")
    assert fault is not None and fault.latency_ms == 5
    assert fault.error is not None and (fault.error.status, fault.error.code) == (429, "TooManyRequests")
    assert made.draw("PutMessages") is None


def test_a_delay_alone() -> None:
    assert faults(b'{"rules":[{"latencyMs":7}]}').draw("GetGroup") == Fault(7, None)


def drawn(made: Faults) -> list[bool]:
    return [made.draw("GetMessages") is not None for _ in range(200)]


def test_a_seed_repeats() -> None:
    text = b'{"seed":%d,"rules":[{"probability":0.25,"status":503}]}'
    first = drawn(faults(text % 1))
    assert first == drawn(faults(text % 1)) != drawn(faults(text % 2))
    assert 25 < sum(first) < 75


@pytest.mark.parametrize("rule", [b'{"probability":2}', b'{"probability":-1}', b'{"latencyMs":-1}', b'{"status":"x"}'])
def test_rules_that_cannot_be(rule: bytes) -> None:
    with pytest.raises(OciError, match=r"rules\.0"):
        parsed(FaultRules, b'{"rules":[%s]}' % rule)
