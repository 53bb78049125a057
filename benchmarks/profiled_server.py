"""Runs `crdtstream` with a profiler that SIGUSR1 switches on and SIGUSR2 off; the profile is written at the end.

A script, so that it runs in any interpreter: python profiled_server.py FILE serve ...
"""

from __future__ import annotations

import cProfile
import runpy
import signal
import sys


def main() -> None:
    target = sys.argv.pop(1)
    del sys.path[0]  # this directory, whose modules the node must not see
    profile = cProfile.Profile()
    signal.signal(signal.SIGUSR1, lambda *_: profile.enable())
    signal.signal(signal.SIGUSR2, lambda *_: profile.disable())
    try:
        runpy.run_module("crdtstream", run_name="__main__", alter_sys=True)
    finally:
        profile.disable()
        profile.dump_stats(target)


if __name__ == "__main__":
    main()
