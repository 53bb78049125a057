"""The settings of shards: which ones there are, where each lies and listens, and what cannot work."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crdtstream.settings.config import Config, ConfigError
from crdtstream.settings.sharding import (
    elsewhere,
    here,
    number_of,
    numbers_in,
    numbers_of,
    of_shard,
    own_host,
    ranges_of,
    replaced,
    replication_host,
)
from crdtstream.settings.validating import validate

ONE = Config(name="east", region=1, cluster="c")
FOUR = replace(ONE, shards=4)
TLS = {"tls_certificate": "a", "tls_key": "b", "tls_authority": "c"}


def test_a_shard_has_a_directory_and_ports_of_its_own() -> None:
    config = replace(FOUR, data="d", backup_directory="b", tls_port=7000, bulk_port=7201, http_port=0, peers=("w:1",))
    shard = of_shard(config, 3)
    assert (shard.data, shard.backup_directory) == ("d/shard-003", "b")
    assert (shard.port, shard.tls_port, shard.replication_port) == (6382, 7003, 16382)
    assert (shard.bulk_port, shard.http_port, shard.oci_port) == (7204, 0, None)
    assert number_of(shard) == 3
    assert shard.peers == ("w:1",)
    first = of_shard(replace(FOUR, data="d"), 0)
    assert (first.data, first.port, first.bulk_port, first.backup_directory) == ("d/shard-000", 6379, None, "")


def test_numbers_as_text_and_back() -> None:
    assert ranges_of([3, 0, 1, 6]) == "0-1,3,6" and numbers_of("0-1,3,6", 7, "shard") == [0, 1, 3, 6]
    assert numbers_in(["shard-010", "shard-2", "shard-002", "shards.json", ".lock"]) == [2, 10]


def test_a_region_of_one_is_shard_0() -> None:
    assert number_of(ONE) == 0
    assert here(ONE) == [0]


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3", [0, 1, 2, 3]), ("2", [2]), ("3,0", [0, 3]), ("0-1, 1-2", [0, 1, 2])]
)
def test_shards_are_named_by_ranges(text: str, numbers: list[int]) -> None:
    assert numbers_of(text, 4, "shard") == here(replace(FOUR, shard=text)) == numbers


@pytest.mark.parametrize("text", ["4", "2-1", "0-4", "a", "-1", "1-", "1-2-3", "٣", ",", "10000000000"])
def test_others_do_not_exist(text: str) -> None:
    with pytest.raises(ConfigError, match=r"^shard .*from 0 to 3"):
        numbers_of(text, 4, "shard")


def test_shards_elsewhere_are_reached_at_the_ports_behind_the_announced_one() -> None:
    config = replace(FOUR, shard="0", announce=("1-2=b.example.net:7000", "3=[::1]:8000"))
    validate(config)
    assert elsewhere(config) == {1: ("b.example.net", 7000), 2: ("b.example.net", 7000), 3: ("::1", 8000)}


@pytest.mark.parametrize(
    ("settings", "host", "dialled"),
    [
        ({}, "127.0.0.1", ""),
        ({"bind": "0.0.0.0"}, "", ""),
        ({"bind": "0.0.0.0", "announce_host": "a.example.net"}, "a.example.net", "a.example.net"),
        ({"bind": "10.0.0.1", "replication_bind": "10.0.0.2"}, "10.0.0.1", "10.0.0.2"),
        ({"announce_host": "[fd00::1]", "replication_bind": "::"}, "fd00::1", "fd00::1"),
    ],
)
def test_where_the_shards_here_are_reached(settings: dict[str, object], host: str, dialled: str) -> None:
    config = replace(FOUR, **settings)  # type: ignore[arg-type]
    assert (own_host(config), replication_host(config)) == (host, dialled)


@pytest.mark.parametrize(
    "settings",
    [
        {"shards": 1},
        {"shards": 1000, "port": 10000, "replication_port": 11000},
        {"bulk_port": 7201, "http_port": 0},
        {"tls_port": 6383, **TLS},
        {"port": 0, "tls_port": 6383, **TLS},
        {"shard": "1-3", "announce": ("0=a:6379",)},
        {"bind": "0.0.0.0", "announce_host": "a"},
        {"bind": "0.0.0.0", "announce": ("0-3=a:6379",)},
        {"bind": "127.0.0.1", "http_bind": "127.0.0.2", "http_port": 6379},
        {"announce": ("0-3=127.0.0.1:6379",)},
        {"shard": "0-2", "announce": ("3=127.0.0.1:7379",)},
        {"replace": "3", "shard": "1-2", "announce": ("0=a:6379", "3=a:6379")},
        {"shards": 1, "replace": True},
    ],
)
def test_what_works_passes(settings: dict[str, object]) -> None:
    validate(replace(FOUR, **settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"shards": 0}, "shards 0 must be between 1 and 1000"),
        ({"shards": 1001}, "shards 1001 must be between 1 and 1000"),
        ({"shards": 1, "shard": "0"}, "shard belongs to a region of several shards: give --shards too"),
        ({"shards": 1, "announce": ("0=a:1",)}, "announce belongs to a region of several shards"),
        ({"shard": "4"}, "shard '4' names shards that do not exist: there are 4, from 0 to 3"),
        ({"oci_port": 7301}, "oci-port does not work with more than one shard yet"),
        ({"port": 0}, "port 0 does not work with shards"),
        ({"replication_port": 0}, "replication-port 0 does not work with shards"),
        ({"bulk_port": 0}, "bulk-port 0 does not work with shards"),
        ({"port": 65533}, "the ports 65533 to 65536 exceed 65535"),
        ({"http_port": 6382}, "the ports 6379 to 6382 and the http-ports 6382 to 6385 overlap"),
        ({"bulk_port": 16376}, "the replication-ports 16379 to 16382 and the bulk-ports 16376 to 16379 overlap"),
        ({"tls_port": 6380, **TLS}, "the ports 6379 to 6382 and the tls-ports 6380 to 6383 overlap"),
        ({"bind": "0.0.0.0"}, "give the name of this machine as --announce-host"),
        ({"shard": "0-2"}, "shard 3 runs elsewhere, and nothing says where: give --announce 3=HOST:PORT"),
        ({"announce": ("0-3",)}, "announce '0-3' must be SHARDS=HOST:PORT"),
        ({"announce": ("0=a:65533",)}, "announce '0=a:65533' must be SHARDS=HOST:PORT"),
        ({"announce": ("0=u@a:1",)}, "must be SHARDS=HOST:PORT"),
        ({"announce": ("4=a:1",)}, "announce '4=a:1': '4' names shards that do not exist"),
        ({"announce": ("0-1=a:1", "1=b:1")}, "announce names shard 1 twice"),
        (
            {"shard": "0-2", "announce": ("3=127.0.0.1:6379",)},
            "announce has shard 3 at port 6382 of 127.0.0.1, as if it ran on this machine: give each machine",
        ),
        (
            {"shard": "none", "announce_host": "[fd00::1]", "announce": ("0-3=[fd00::1]:6379",)},
            "at port 6379 of fd00::1, as if",
        ),
        (
            {"shard": "none", "port": 0, "tls_port": 6383, "announce": ("0-3=127.0.0.1:6383",), **TLS},
            "announce has shard 0 at port 6383 of 127.0.0.1, ",
        ),
        ({"replace": "4"}, "replace '4' names shards that do not exist: there are 4, from 0 to 3"),
        ({"shards": 1, "replace": "1"}, "replace '1' names shards, and this region has one: give --replace alone"),
        ({"shards": 1, "replace": "0-1"}, "replace '0-1' names shards, and this region has one: give --replace alone"),
    ],
)
def test_what_cannot_work_is_refused(settings: dict[str, object], text: str) -> None:
    with pytest.raises(ConfigError) as refused:
        validate(replace(FOUR, **settings))  # type: ignore[arg-type]
    assert text in str(refused.value)


# Shards 0 and 3 run elsewhere: one that moves here later is checked as ever.
@pytest.mark.parametrize(("replace_", "numbers"), [(False, []), (True, [1, 2]), ("1", [1]), ("0,2-3", [2])])
def test_all_shards_of_a_machine_take_over_or_those_that_are_named(replace_: bool | str, numbers: list[int]) -> None:
    config = replace(FOUR, shard="1-2", announce=("0=a:6379", "3=a:6379"), replace=replace_)
    assert replaced(config) == numbers
    assert [number for number in range(4) if of_shard(config, number).replace] == numbers
