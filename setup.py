"""Compiles layers 0-3 and a part of the runtime with mypyc where that is possible, and writes which build this is; all
else is in pyproject.toml.

A wheel is compiled when a C compiler and mypy are there, and is plain Python otherwise: all modules or none, because a
compiled one cannot stand beside a library that failed to build. A development install is never compiled, so that no
stale extension shadows an edit. CRDTSTREAM_COMPILE=0 keeps a wheel plain; CRDTSTREAM_COMPILE=1 compiles a development
install too, and fails where compiling fails.

Reference: `mypyc.build.mypycify`; `Extension.optional` of setuptools.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

PACKAGE = Path("crdtstream")
FOLDERS = ("core", "protocols", "connections", "commands", "replication", "bulk", "partitions", "region", "storage")
# Of the runtime what every request needs, and no coroutines: see runtime/turns.py.
RUNTIME = ("turns.py", "redis/connections.py", "redis/unread.py", "blocked_turn.py", "metrics/histogram.py")
# Of the settings and the status what commands read: the rest of both is read at the start, or written in the log.
SHARED = ("settings/live.py", "status/availability.py", "status/volume.py")
WISH = os.environ.get("CRDTSTREAM_COMPILE", "")
# Commands of setuptools that build what is then imported; others only ask for metadata.
BUILDING = {"0": (), "1": ("bdist_wheel", "build_ext", "editable_wheel")}.get(WISH, ("bdist_wheel",))


def modules() -> list[str]:
    """The files of layers 0-3, without what the protocol buffer compiler wrote."""
    found = [path for folder in FOLDERS for path in sorted((PACKAGE / folder).rglob("*.py"))]
    found += [PACKAGE / name for name in SHARED]
    found += [PACKAGE / "runtime" / name for name in RUNTIME]
    return [str(path) for path in found if not path.stem.endswith(("_pb2", "_pb2_grpc"))]


def extensions() -> list[Extension]:
    """One for each module, and the library that all of them share, from several C files: one takes 3 GB to compile."""
    if not any(command in sys.argv for command in BUILDING):
        return []
    try:
        from mypyc.build import mypycify

        made: list[Extension] = mypycify(
            modules(), opt_level="3", debug_level="0", group_name="crdtstream", multi_file=True
        )
    except (ImportError, SystemExit) as error:
        if WISH == "1":
            raise
        print(f"not compiled: {error}", file=sys.stderr)
        return []
    for extension in made:
        extension.optional = WISH != "1"
    return made


class BuildAllOrNone(build_ext):
    """Drops what was built when anything is missing."""

    def build_extensions(self) -> None:
        super().build_extensions()
        built = [Path(self.get_ext_fullpath(extension.name)) for extension in self.extensions]
        if not all(path.exists() for path in built):
            print("not compiled: the modules stay plain Python", file=sys.stderr)
            for path in built:
                path.unlink(missing_ok=True)


class BuildNamed(build_py):
    """Writes which build this is beside the modules; a development install asks git instead."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            write_build(Path(self.build_lib))


class SourceNamed(sdist):
    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        write_build(Path(base_dir))


def write_build(tree: Path) -> None:
    """Of the checkout that is built; a source distribution has brought the file."""
    naming = runpy.run_path(str(PACKAGE / "runtime" / "build.py"))
    found = naming["read"](PACKAGE)
    commit, date = naming["of_checkout"](Path.cwd()) if found == naming["UNKNOWN"] else found
    (tree / PACKAGE / naming["FILE"]).write_text(f"{commit} {date}\n")


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildAllOrNone, "build_py": BuildNamed, "sdist": SourceNamed},
)
