"""Whatever the package logs is an event of the table, at its level and with its fields: found in the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from crdtstream.replication.membership import lifecycle_events
from crdtstream.status.events import AS_GIVEN, EVENTS, GROUPS, LEVELS
from tests.tidy import Source, sources

NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
METHODS = {"debug": "debug", "info": "info", "warning": "warning", "error": "error", "exception": "error"}
# What the runtime passes besides the fields.
ALWAYS = {"exc_info"}
# Spark's executors log in their own way, and are no part of a region.
OTHERS = "crdtstream/spark/"
# Where events are logged that are named elsewhere: notices of the node, and repeated ones.
PASSED_ON = {
    ("crdtstream/runtime/logs/logging.py", "logger.log"),
    ("crdtstream/runtime/logs/grpc_output.py", "logger.log"),
    ("crdtstream/runtime/links/grpc_transport.py", "log"),
    ("crdtstream/runtime/turns.py", "log"),
    ("crdtstream/connections/guard.py", "Notice"),
}


def faults_in(source: Source) -> Iterator[str]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        method = called.rpartition("logger.")[2] if called.startswith("logger.") else ""
        if method in METHODS or called in ("Notice", "log", "logger.log", "self._warn"):
            yield from faults_of(source, node, called, METHODS.get(method, ""))


def faults_of(source: Source, call: ast.Call, called: str, level: str) -> Iterator[str]:
    name = literal(call.args[0]) or (literal(call.args[1]) if called in ("log", "logger.log") else "")
    if not name:
        if (source.path, called) not in PASSED_ON:
            yield source.fault(call.lineno, f"{called} needs the name of an event")
        return
    event = EVENTS.get(name)
    if event is None:
        yield source.fault(call.lineno, f"{name!r} is not an event")
    elif level and event.level not in (level, AS_GIVEN):
        yield source.fault(call.lineno, f"{name} is logged as {level}, and its level is {event.level}")
    else:
        given = {keyword.arg for keyword in call.keywords if keyword.arg} - ALWAYS
        for field in sorted(given - {*event.fields}):
            yield source.fault(call.lineno, f"{name} has no field {field}")


def literal(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def logging_sources() -> list[Source]:
    return [source for source in sources("crdtstream") if not source.path.startswith(OTHERS)]


@pytest.mark.interpreted
def test_every_call_logs_an_event() -> None:
    faults = [fault for source in logging_sources() for fault in faults_in(source)]
    assert not faults, "\n".join(faults)


@pytest.mark.interpreted
def test_every_event_is_logged_somewhere() -> None:
    text = "".join(source.text for source in logging_sources() if source.path != "crdtstream/status/events.py")
    assert [name for name in EVENTS if f'"{name}"' not in text] == []


def test_events_of_membership_are_listed() -> None:
    names = {lifecycle_events.FOUNDED, lifecycle_events.ADMITTED, lifecycle_events.EVICTED, lifecycle_events.READY}
    assert names < {*EVENTS}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("logger.info('disk full')", "is not an event"),
        ("logger.info('disk-full')", "its level is warning"),
        ("logger.warning('disk-full', colour=1)", "no field colour"),
        ("logger.warning(f'disk-full {x}')", "needs the name of an event"),
        ("Notice(text, text)", "needs the name of an event"),
        ("self._warn('link closed', a, b, {})", "is not an event"),
    ],
)
def test_faults_are_seen(text: str, expected: str) -> None:
    [fault] = faults_in(Source("crdtstream/runtime/a.py", text))
    assert expected in fault


def test_names_are_words_and_levels_are_known() -> None:
    listed = [event for _, events in GROUPS for event in events]
    assert len(listed) == len(EVENTS)
    for event in listed:
        assert NAME.fullmatch(event.name)
        assert event.level in (*LEVELS, AS_GIVEN)
        assert event.meaning.endswith(".")
        assert not {"timestamp", "level", "event", "region", "exception"} & {*event.fields}
