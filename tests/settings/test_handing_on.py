"""What a supervisor hands on to its shards: what changes at a start only, and where the shards are."""

from __future__ import annotations

from pathlib import Path

import pytest

from crdtstream.settings.config import Config, ConfigError, Limits
from crdtstream.settings.handing_on import decoded, encoded
from crdtstream.settings.rewriting import Values
from crdtstream.settings.sources import Sources

CONFIG = Config(
    name="east",
    region=1,
    cluster="c",
    shards=2,
    shard="0",
    announce=("1=b:7000",),
    allowed_regions=(2, 3),
    http_token="t\udce4",
    peers=("west:7901",),
    limits=Limits(write_bytes_max=3 << 20, clients_max=7),
)
EDITED = "name = 'west'\nregion = 2\nbulk-port = 7201\npeers = ['north:7901']\n[limits]\nclients_max = 9\n"


def handed() -> Values:
    return decoded(encoded(CONFIG))


def test_what_changes_at_a_start_is_handed_on_and_where_shards_are() -> None:
    found = handed()
    assert {name: found[name] for name in ("shards", "shard", "announce", "allowed_regions", "bulk_port")} == {
        "shards": 2,
        "shard": "0",
        "announce": ("1=b:7000",),
        "allowed_regions": (2, 3),
        "bulk_port": None,
    }
    assert (found["http_token"], found["write_bytes_max"]) == ("t\udce4", 3 << 20)


def test_it_hides_the_file_but_for_what_may_change(tmp_path: Path) -> None:
    """A file that has lost settings, and has others that would not do together."""
    path = tmp_path / "settings.toml"
    path.write_text(EDITED)
    read = Sources(path, {}, {}).load(handed())
    assert (read.name, read.region, read.shards, read.bulk_port) == ("east", 1, 2, None)
    assert (read.peers, read.limits) == (("north:7901",), Limits(write_bytes_max=3 << 20, clients_max=9))


def test_the_password_and_its_file_stay_one_setting() -> None:
    assert not {"requirepass", "requirepass_file"}.intersection(handed())


def test_of_another_release_what_is_known_counts() -> None:
    assert decoded('{"shards": 2, "colours": 7}') == {"shards": 2}


@pytest.mark.parametrize("text", ["yes", "7", "[1]"])
def test_what_no_supervisor_wrote_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="variable CRDTSTREAM_SHARD_SETTINGS is for a supervisor alone: do not set"):
        decoded(text)
