"""The arguments of a region, and the one region that is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream.processes.region import RegionProcess, await_agreement, regions_in, words_of
from crdtstream.processes.waiting import ProcessError


def test_settings_are_options() -> None:
    settings = {"fsync": "no", "bulk_port": 7, "protected_mode": False, "replace": True, "peer": ("a:1", "b:2")}
    words = "--fsync no --bulk-port 7 --no-protected-mode --replace --peer a:1 --peer b:2"
    assert words_of(settings) == words.split()


def test_ports_are_given_or_free(tmp_path: Path) -> None:
    one = RegionProcess(1, tmp_path, "east", host="10.0.0.1", port=6379, replication_port=16379)
    assert (one.port, one.address, one.bulk_port) == (6379, "10.0.0.1:16379", 0)
    other = RegionProcess(2, tmp_path, bulk=True)
    assert len({other.port, other.replication_port, other.bulk_port}) == 3
    assert (str(one), str(other)) == ("region east", "region2")


def test_regions_start_and_tell_about_themselves(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        one, two = regions.make(1, 2)
        one.start(two, incarnation=0)
        two.start(one.address, incarnation=0)
        one.await_serving().await_links("region2")
        two.await_serving().await_links("region1")
        one.await_admitted()
        one.create_group("x", "g")
        one.ask("XADD", "x", "*", "f", "v")
        regions.await_agreement()
        assert one.vector() == two.vector() and one.vector()[one.origin()] >= 2
        two.kill()
        one.await_links()
        with pytest.raises(ProcessError, match=r"(?s)region1 is linked with \['region3'\], it is with \[\].*serving"):
            one.await_links("region3", deadline_s=0)
        two.start(one)
        two.await_serving()
        await_agreement([one, two])
    assert not one.runs() and not two.runs()


def test_arguments_that_are_refused_are_shown(tmp_path: Path) -> None:
    with regions_in(tmp_path) as regions:
        [region] = regions.make(1)
        region.start(no_such_option=1)
        with pytest.raises(ProcessError, match=r"(?s)region1 ended with exit code 2.*no-such-option"):
            region.await_serving()
