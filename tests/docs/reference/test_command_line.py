"""The page of the command line has every command, option, variable and program, whatever the release of typer."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from crdtstream.settings.table import KNOWN
from docs.reference.command_line import command_line_page, parser_of, programs_of_the_tree, sections
from tests.test_help import ALL, MODULES

PAGE = command_line_page()


def section_of(name: str) -> str:
    found = re.search(rf"^#+ {re.escape(name)}\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"no section {name}"
    return found[1]


@pytest.mark.parametrize("path", list(ALL), ids=" ".join)
def test_every_option_of_a_command_is_in_its_section(path: tuple[str, ...]) -> None:
    text = section_of(" ".join(["crdtstream", *path]))
    settings = {known.field for known in KNOWN.values()} if path == ("serve",) else set()
    for each in ALL[path].params:
        if each.param_type_name == "option" and each.name not in settings and "completion" not in each.name:
            assert each.name == "help" or f"`{each.opts[0]}`" in text, each.opts
            assert not each.envvar or f"| `{each.envvar}` |" in text


def test_every_setting_that_has_a_flag_is_there() -> None:
    text = section_of("Settings as flags")
    assert [known.flag for known in KNOWN.values() if known.flag and f"| `{known.flag}`" not in text] == []


def test_every_program_of_the_tree_is_there() -> None:
    assert {f"python -m {module}" for module in MODULES} == {name for name, _ in programs_of_the_tree()}


def test_values_defaults_and_variables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program_of_this_test.py").write_text(PROGRAM, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    text = "".join(sections(parser_of("program_of_this_test"), "program", 1))
    assert text == SHOWN


PROGRAM = """
from typing import Annotated
import typer
def main(
    names: Annotated[list[str], typer.Argument(help="Which ones.")],
    count: Annotated[int, typer.Option(min=1, envvar="COUNT", help="How many | at most.")] = 3,
    zero: Annotated[float, typer.Option(help="From here.")] = 0,
    wet: Annotated[bool, typer.Option("--wet", help="With water.")] = False,
) -> None:
    \"\"\"Do it.\"\"\"
"""
SHOWN = r"""# program

```text
program NAMES... [OPTIONS]
```

Do it.

| argument | value | default | variable | meaning |
|---|---|---|---|---|
| `NAMES` | text, repeated |  |  | Which ones. |

| option | value | default | variable | meaning |
|---|---|---|---|---|
| `--count` | number from 1 | `3` | `COUNT` | How many \| at most. |
| `--zero` | number | `0` |  | From here. |
| `--wet` |  |  |  | With water. |

"""
