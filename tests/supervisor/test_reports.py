"""Reports come with the process that wrote them, whatever they say."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing

import pytest

from crdtstream.runtime.service_manager import ServiceManager
from crdtstream.supervisor.reports import Reports, ShardReport


@pytest.fixture
def reports() -> Iterator[Reports]:
    with closing(Reports()) as made:
        yield made


def test_what_a_region_tells_a_service_manager_is_heard(reports: Reports) -> None:
    teller = ServiceManager(reports.address)
    assert reports.read() == []
    teller.notify("it waits", is_stopping=False)
    teller.notify("", is_stopping=False)
    teller.notify_left()
    teller.notify_moved()
    teller.notify("", is_stopping=True)
    heard = reports.read()
    told = ["it waits", "serving", "it has left the cluster", "it has moved", "stopping"]
    assert [each.status for each in heard] == told
    assert [each.serves for each in heard] == [False, True, False, False, False]
    assert [each.has_left for each in heard] == [False, False, True, False, False]
    assert [each.has_moved for each in heard] == [False, False, False, True, False]
    assert [each.stops for each in heard] == [False, False, False, False, True]
    assert {each.process for each in heard} == {os.getpid()}
    assert reports.read() == []


def test_another_process_is_known_by_its_id(reports: Reports) -> None:
    program = (
        "import socket, sys; s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM);"
        " s.sendto(b'READY=1', '\\0' + sys.argv[1])"
    )
    other = subprocess.Popen([sys.executable, "-c", program, reports.address[1:]])
    assert other.wait() == 0
    (report,) = reports.read()
    assert (report.process, report.serves) == (other.pid, True)


@pytest.mark.parametrize("text", ["", "\n", "READY", "READY=0\nSTATUS=a=b", "\x00"])
def test_anything_is_read(text: str) -> None:
    report = ShardReport(1, text)
    assert not report.serves
    assert report.status == ("a=b" if "a=b" in text else "")
