"""Real regions that are told one peer and find the others."""

from __future__ import annotations

import time
from pathlib import Path

from crdtstream.processes.region import regions_in

# Two ticks of a region, in which it would dial what it is told.
TICKS_S = 0.5


def shared(directory: Path) -> dict[str, object]:
    """What lets regions that are nobody's configured peers in, and tells where they are."""
    secret = directory / "secret"
    secret.write_text("a secret that all regions share\n")
    secret.chmod(0o600)
    return {"announce_host": "127.0.0.1", "replication_secret_file": secret}


def test_one_peer_is_enough_to_meet_all(tmp_path: Path) -> None:
    with regions_in(tmp_path) as cluster:
        seed, second, third = cluster.make(1, 2, 3)
        known = shared(tmp_path)
        seed.start(**known)
        second.start(seed, **known)
        third.start(seed, **known)
        second.await_links("region1", "region3")
        third.await_links("region1", "region2")
        assert second.ask("CONFIG", "GET", "peers") == [b"peers", seed.address.encode()]

        # What was announced is remembered: the one peer is gone while the others start again.
        seed.kill()
        second.kill()
        third.kill()
        second.start(seed, **known)
        third.start(seed, **known)
        second.await_links("region3")
        third.await_links("region2")
        seed.start(**known)
        seed.await_links("region2", "region3")
        second.ask("XADD", "s", "*", "f", "v")
        cluster.await_agreement(seed, second, third)


def test_each_region_tells_where_the_others_are_reached(tmp_path: Path) -> None:
    with regions_in(tmp_path) as cluster:
        seed, other = cluster.make(1, 2)
        known = shared(tmp_path)
        seed.start(incarnation=0, replication_secret_file=known["replication_secret_file"])
        other.start(seed, http_port=0, **known)
        seed.await_links("region2")
        rows = [dict(zip(row[::2], row[1::2], strict=True)) for row in seed.ask("CRDT.REGIONS")]
        assert rows[0][b"redis-address"] == f"127.0.0.1:{seed.port}".encode()
        assert b"replication-address" not in rows[0], "a port on loopback invites nobody unless it is told to"
        assert rows[1][b"redis-address"] == f"127.0.0.1:{other.port}".encode()
        assert rows[1][b"replication-address"] == other.address.encode()
        assert rows[1][b"http-address"].startswith(b"127.0.0.1:")


def test_a_peer_is_removed_for_good_and_discovery_can_be_off(tmp_path: Path) -> None:
    with regions_in(tmp_path) as cluster:
        seed, second, third = cluster.make(1, 2, 3)
        known = shared(tmp_path)
        seed.start(discover_peers=False, **known)
        second.start(seed, discover_peers=False, **known)
        third.start(seed, discover_peers=False, **known)
        second.await_links("region1")
        third.await_links("region1")
        assert third.ask("CONFIG", "SET", "discover-peers", "yes") == b"OK"
        third.await_links("region1", "region2")
        assert second.ask("CONFIG", "SET", "peers", "") == b"OK"
        second.await_links("region3")
        time.sleep(TICKS_S)
        second.await_links("region3")
