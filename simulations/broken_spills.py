"""Broken lines of spilled blocks: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

SPILLING = {"spilling": True}
# Much is removed.
DELETES = {"spilling": True, "profile": "deletes", "faults": ()}

SPILLS = (
    Mutation(
        "a place that moves before the conclusion",
        "storage/checkpoint.py",
        "        manifest.saved_ms = saved_ms\n",
        "        manifest.saved_ms = saved_ms\n"
        "        for written in capture.written():\n            written.lay(1 << 30)\n",
        "block files",
        focus={"spilling": True, "small_volumes": True, "faults": ("disk-full",), "duration_ms": 6_000},
    ),
    Mutation(
        "a file that is cut while it is read, so that its room is free at once",
        "storage/checkpoint.py",
        "            if name not in named:\n                self._disk.delete(name)\n",
        "            if name not in named:\n                self._disk.truncate(name, 0)\n"
        "                self._disk.delete(name)\n",
        "cold damage",
        alone=True,
        focus=SPILLING,
    ),
    Mutation(
        "the file of a state is cut once the state is joined, before a checkpoint has its blocks",
        "storage/staged_blocks.py",
        "            self._disk.delete(STAGED)\n",
        "            self._disk.truncate(STAGED, 0)\n            self._disk.delete(STAGED)\n",
        "block files",
        alone=True,
        focus=SPILLING,
    ),
    Mutation(
        "the file of a state is left behind",
        "storage/staged_blocks.py",
        "        if STAGED in self._disk.names():\n            self._disk.delete(STAGED)\n",
        "        if self._file is not None and STAGED in self._disk.names():\n            self._disk.delete(STAGED)\n",
        "block files",
        focus=SPILLING,
    ),
    Mutation(
        "a wait after a preparation",
        "commands/dispatch.py",
        "            reply = call(context, client, command, argv)\n",
        "            reply = call(context, client, command, argv)\n"
        '            if context.replica.reads.on and command.name == "xadd":\n'
        "                from crdtstream.commands.foreseeing import copying\n"
        "                context.replica.reads.may_wait = True\n                copying(context, client, argv)\n",
        "waits first",
        alone=True,
        focus=SPILLING,
    ),
    Mutation(
        "a checksum that is not looked at",
        "core/entries/packed_block.py",
        "        if not handle.is_whole(packed):\n",
        "        if False:\n",
        "cold damage",
        focus=SPILLING,
    ),
    Mutation(
        "what was read is known by its offset, in whatever file it lies",
        "core/entries/spilled.py",
        "        found = self._held.get(handle)\n",
        "        found = next((read for one, read in self._held.items() if one.offset == handle.offset), None)\n",
        "cold damage",
        focus=SPILLING,
    ),
    Mutation(
        "a command that waited counts twice",
        "connections/calling.py",
        "        tally.calls -= 1\n",
        "",
        "counted once",
        alone=True,
        focus=SPILLING,
    ),
    Mutation(
        "a client whose blocks were read is not served again",
        "region/serving.py",
        "            client.parked = False\n            self._arrived.append(client)\n",
        "            client.parked = False\n",
        "blocks come",
        alone=True,
        focus=SPILLING,
    ),
    Mutation(
        "a batch whose blocks are not read first",
        "replication/log/turn.py",
        "            demand_blocks(demanded_by(batch, self._replica.applied))\n",
        "",
        "waits within turns",
        alone=True,
        focus=DELETES,
    ),
)
