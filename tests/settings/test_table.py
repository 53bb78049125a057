"""The table of settings: complete, and what it says of each setting is true."""

from __future__ import annotations

from dataclasses import fields

import pytest

from crdtstream.commands.settings import SETTINGS
from crdtstream.settings.config import LIMITS_MIN, Config, ConfigError, Limits
from crdtstream.settings.table import KNOWN, LIMIT_SETTINGS, NUMBER, REGION_SETTINGS, hint, quantity, unit_of, words_of


def test_every_field_has_one_row() -> None:
    settings = [field.name for field in fields(Config) if field.name not in ("limits", "config_file")]
    assert sorted(known.field for known in REGION_SETTINGS) == sorted(settings)
    assert sorted(known.field for known in LIMIT_SETTINGS) == sorted(field.name for field in fields(Limits))
    assert len(KNOWN) == len(REGION_SETTINGS) + len(LIMIT_SETTINGS)


def test_flags_and_variables_are_different_ones() -> None:
    flags = [known.flag for known in KNOWN.values() if known.flag]
    assert len(set(flags)) == len(flags)
    assert len({known.variable for known in KNOWN.values()}) == len(KNOWN)
    assert [known.field for known in KNOWN.values() if not known.flag] == ["requirepass", "http_token"]


def test_what_changes_at_run_time_is_what_config_set_takes() -> None:
    for known in KNOWN.values():
        settable = any(each.settable for each in SETTINGS.values() if each.field == known.field)
        assert known.is_live == settable, known.field


def test_a_secret_is_one_for_config_get_too() -> None:
    assert {known.field for known in KNOWN.values() if known.row.secret} == {
        each.field for each in SETTINGS.values() if each.secret
    }


def test_every_setting_says_what_it_means_and_in_which_unit() -> None:
    for known in KNOWN.values():
        assert known.row.meaning.endswith("."), known.field
        assert known.unit and known.unit != "number", known.field


@pytest.mark.parametrize(
    ("field", "unit"),
    [
        ("heartbeat_ms", "milliseconds"),
        ("client_idle_s_max", "seconds"),
        ("slow_command_us", "microseconds"),
        ("bulk_bytes_max", "bytes"),
        ("acl_log_entries_max", "entries"),
        ("clients_max", "clients"),
    ],
)
def test_the_name_of_a_limit_contains_its_unit(field: str, unit: str) -> None:
    assert unit_of(field) == KNOWN[field].unit == unit


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("port", "0", 0),
        ("slow_command_us", "-1", -1),
        ("memory_bytes_max", "64mb", 64 << 20),
        ("memory_bytes_max", "2GiB", 2 << 30),
        ("memory_bytes_max", "1k", 1000),
        ("replace", "ON", True),
        ("replace", "false", False),
        ("replace", "0-1", "0-1"),
        ("replace", "1", "1"),
        ("peers", "", ()),
        ("peers", " a:1,b:2  c:3 ", ("a:1", "b:2", "c:3")),
        ("allowed_regions", "2 3", (2, 3)),
        ("fsync", "always", "always"),
    ],
)
def test_texts_are_read_by_the_kind_of_the_setting(field: str, text: str, value: object) -> None:
    assert KNOWN[field].parse(text, "it") == value


@pytest.mark.parametrize(
    ("field", "text"), [("port", "64mb"), ("port", "1.0"), ("replace", ""), ("replace", "one"), ("port", "٣")]
)
def test_other_texts_are_refused(field: str, text: str) -> None:
    with pytest.raises(ConfigError, match=r"^it must be .*, not "):
        KNOWN[field].parse(text, "it")


def test_defaults_are_shown_with_sizes_that_people_read() -> None:
    assert KNOWN["inbox_bytes_max"].shown_default() == "256 MiB"
    assert (quantity(0, True), quantity(1500, True), quantity(1 << 20, False)) == ("0", "1,500", "1,048,576")
    assert [KNOWN[name].shown_default() for name in ("name", "port", "bulk_port", "protected_mode")] == [
        "required",
        "6379",
        "",
        "yes",
    ]


def test_near_misses() -> None:
    assert hint("peer", ["port", "peers"]) == ': did you mean "peers"?'
    assert hint("something", ["port", "peers"]) == ""
    assert words_of(",") == ()


def test_bounds_are_those_of_numbers() -> None:
    assert {KNOWN[name].kind for name in LIMITS_MIN} == {NUMBER}
