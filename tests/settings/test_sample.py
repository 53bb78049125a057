"""The sample file says the defaults, names every setting, and is the one in deploy/."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from crdtstream.settings.config import Config
from crdtstream.settings.sample import sample
from crdtstream.settings.sources import load_config
from crdtstream.settings.table import KNOWN

ROOT = Path(__file__).resolve().parent.parent.parent
COPY = ROOT / "deploy" / "crdtstream.toml"
OFF = re.compile(r"^#(?=[a-z])", re.MULTILINE)


def test_the_copy_is_fresh() -> None:
    assert COPY.read_text(encoding="utf-8") == sample(), "run `crdtstream config sample > deploy/crdtstream.toml`"


def test_it_is_read_as_the_defaults() -> None:
    expected = Config("east", 1, "shop", config_file=str(COPY))
    assert load_config(COPY, {}) == expected


def test_each_setting_that_is_off_says_its_default() -> None:
    values = tomllib.loads(OFF.sub("", sample()))
    limits = values.pop("limits")
    for known in KNOWN.values():
        value = (limits if known.of_limits else values).pop(known.key)
        if known.default is not None and not known.is_required:
            assert known.convert(value, known.key) == known.default, known.key
    assert not values and not limits


def test_every_line_is_narrow_and_each_setting_is_explained() -> None:
    lines = sample().splitlines()
    assert max(map(len, lines)) <= 102
    for known in KNOWN.values():
        (at,) = [at for at, line in enumerate(lines) if re.match(rf"#?{known.key} = ", line)]
        assert lines[at - 1].startswith("# "), known.key
