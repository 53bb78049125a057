"""Broken lines of regions with several shards: see `broken_lines.py`."""

from __future__ import annotations

from simulations.broken_lines import Mutation

SHARDS = {"sharded": True}

SHARDED = (
    Mutation(
        "EXEC is not routed",
        "commands/routing.py",
        "for name in names_in(queued, request)]\n",
        "for name in names_in(queued, request)][:0]\n",
        "routing",
        focus=SHARDS,
    ),
    Mutation(
        "only the first key of a request is looked at",
        "commands/routing.py",
        "    if any(hash_slot_of(name) != hash_slot for name in names[1:]):\n",
        "    if False:\n",
        "routing",
        focus=SHARDS,
    ),
    Mutation(
        "a shard sends clients to itself",
        "commands/routing.py",
        '        raise RedirectError(f"MOVED {hash_slot} {host_for(shard, client)}:{port}")\n',
        '        raise RedirectError(f"MOVED {hash_slot} {host_for(shards.own_shard(), client)}:{port}")\n',
        "routing",
        focus=SHARDS,
    ),
    Mutation(
        "the first hash slot of a shard is that after it",
        "protocols/hash_slots.py",
        "    return list(zip([0, *[end + 1 for end in ends[:-1]]], ends, strict=True))\n",
        "    ends = [*[end + 1 for end in ends[:-1]], ends[-1]]\n"
        "    return list(zip([0, *[end + 1 for end in ends[:-1]]], ends, strict=True))\n",
        "routing",
        focus=SHARDS,
    ),
    Mutation(
        "a hash tag counts for nothing",
        "protocols/hash_slots.py",
        "        if end > begin + 1:\n",
        "        if False:\n",
        "own keys",
        alone=True,
        focus=SHARDS,
    ),
    Mutation(
        "EXEC runs what could be queued beside what another shard serves",
        "commands/dispatch.py",
        "    if client.transaction is not None:\n        client.transaction.refused = True\n    return error_reply",
        "    if client.transaction is not None and not isinstance(error, RedirectError):\n"
        "        client.transaction.refused = True\n    return error_reply",
        "refused requests",
        alone=True,
        focus=SHARDS,
    ),
    Mutation(
        "regions with different numbers of shards are linked",
        "replication/links/greeting.py",
        "    if max(own.shards, 1) != max(peer.shards, 1):\n",
        "    if False:\n",
        "equal shards",
        focus=SHARDS,
    ),
    Mutation(
        "shards of different numbers are linked",
        "replication/links/greeting.py",
        "    if own.shard != peer.shard:\n",
        "    if False:\n",
        "equal shards",
        alone=True,
        focus=SHARDS,
    ),
)
