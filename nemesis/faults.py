"""The faults of a cluster under load, and how each is undone.

A fault does its harm and returns how to undo it, and which regions must continue to accept writes meanwhile.
"""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import redis

from crdtstream.processes.waiting import until
from nemesis.cluster import SERVING_S, Cluster, Region
from nemesis.disks import fill, free, wipe
from nemesis.history import Loss

SLOW_S = 0.15
NARROW_BYTES_S = 40_000
LOST_SHARE = 0.1
KILLS = 3
ALONE_EFFECTS = 500


@dataclass(frozen=True)
class Harm:
    """What a fault did and where. `undo` ends it, but what was lost with a disk stays lost."""

    where: str
    undo: Callable[[], None]
    serving: tuple[str, ...]
    loss: Loss | None = None


Fault = Callable[[Cluster, random.Random], Harm]


def cut_link(cluster: Cluster, chance: random.Random) -> Harm:
    """Cut one link; the other two carry everything."""
    one, other = pick(cluster, chance, 2)
    cluster.cut(one, other)
    return Harm(f"{one.name}-{other.name}", cluster.network.heal, names(cluster))


def cut_one_way(cluster: Cluster, chance: random.Random) -> Harm:
    """Cut one direction: what the source sends is lost, what it receives arrives."""
    source, sink = pick(cluster, chance, 2)
    cluster.network.cut_one_way(source.number, sink.number)
    return Harm(f"{source.name}>{sink.name}", cluster.network.heal, names(cluster))


def deafen_region(cluster: Cluster, chance: random.Random) -> Harm:
    """Cut both links of a region, inward only."""
    [region] = pick(cluster, chance, 1)
    for other in cluster.others(region):
        cluster.network.cut_one_way(other.number, region.number)
    return Harm(f">{region.name}", cluster.network.heal, names(cluster))


def cut_off_region(cluster: Cluster, chance: random.Random) -> Harm:
    [region] = pick(cluster, chance, 1)
    cluster.cut_off(region)
    return Harm(region.name, cluster.network.heal, names(cluster))


def cut_all_links(cluster: Cluster, chance: random.Random) -> Harm:
    for region in cluster.regions.values():
        cluster.cut_off(region)
    return Harm("all", cluster.network.heal, names(cluster))


def slow_links(cluster: Cluster, chance: random.Random) -> Harm:
    for region in cluster.regions.values():
        for other in cluster.others(region):
            cluster.packets.slow(region.number, other.number, SLOW_S)
    return Harm(f"all, {SLOW_S * 1000:.0f} ms", cluster.network.heal, names(cluster))


def lossy_links(cluster: Cluster, chance: random.Random) -> Harm:
    for region in cluster.regions.values():
        for other in cluster.others(region):
            cluster.packets.lose(region.number, other.number, LOST_SHARE)
    return Harm(f"all, {LOST_SHARE:.0%}", cluster.network.heal, names(cluster))


def narrow_links(cluster: Cluster, chance: random.Random) -> Harm:
    for region in cluster.regions.values():
        for other in cluster.others(region):
            cluster.packets.narrow(region.number, other.number, NARROW_BYTES_S)
    return Harm(f"all, {NARROW_BYTES_S // 1000} kB/s", cluster.network.heal, names(cluster))


def kill_region(cluster: Cluster, chance: random.Random) -> Harm:
    [region] = pick(cluster, chance, 1)
    region.kill()
    return Harm(region.name, lambda: cluster.start(region), names(cluster, region))


def kill_again_and_again(cluster: Cluster, chance: random.Random) -> Harm:
    """Kill a region each time it serves again."""
    [region] = pick(cluster, chance, 1)
    for _ in range(KILLS):
        region.kill()
        cluster.start(region)
        region.await_serving(SERVING_S)
    region.kill()
    return Harm(f"{region.name}, {KILLS + 1} times", lambda: cluster.start(region), names(cluster, region))


def kill_all(cluster: Cluster, chance: random.Random) -> Harm:
    for region in cluster.regions.values():
        region.kill()

    def undo() -> None:
        for region in cluster.regions.values():
            cluster.start(region)

    return Harm("all", undo, ())


def kill_cut_off(cluster: Cluster, chance: random.Random) -> Harm:
    """Kill a region that was written to while cut off; it restarts before its links return, and serves alone."""
    [region] = pick(cluster, chance, 1)
    cluster.cut_off(region)
    await_effects(region)
    region.kill()
    cluster.start(region)
    region.await_serving(SERVING_S)
    return Harm(region.name, cluster.network.heal, names(cluster))


def stop_region(cluster: Cluster, chance: random.Random) -> Harm:
    """Suspend a region: its connections stay open and silent."""
    [region] = pick(cluster, chance, 1)
    region.signal(signal.SIGSTOP)
    return Harm(region.name, lambda: region.signal(signal.SIGCONT), names(cluster, region))


def fill_disk(cluster: Cluster, chance: random.Random) -> Harm:
    [region] = pick(cluster, chance, 1)
    fill_until_refused(region)
    return Harm(region.name, lambda: free(region.data), names(cluster, region))


def kill_with_full_disk(cluster: Cluster, chance: random.Random) -> Harm:
    """Kill a region with a full disk; it restarts while the disk is still full."""
    [region] = pick(cluster, chance, 1)
    fill_until_refused(region)
    region.kill()
    cluster.start(region)
    return Harm(region.name, lambda: free(region.data), names(cluster, region))


def lose_disk(cluster: Cluster, chance: random.Random) -> Harm:
    """Lose a disk: the region returns with an empty directory, as another origin, and receives the others' state."""
    [region] = pick(cluster, chance, 1)
    return replace_disk(cluster, region)


def replace_disk(cluster: Cluster, region: Region) -> Harm:
    region.kill()
    wipe(region.data)
    loss = Loss(region.number, time.monotonic())
    return Harm(region.name, lambda: cluster.start(region), names(cluster, region), loss)


def lose_disk_cut_off(cluster: Cluster, chance: random.Random) -> Harm:
    """Lose the disk of a region that was written to while cut off: those writes are gone."""
    [region] = pick(cluster, chance, 1)
    cluster.cut_off(region)
    await_effects(region)
    harm = replace_disk(cluster, region)
    cluster.network.heal()
    return harm


def lose_disk_behind_logs(cluster: Cluster, chance: random.Random) -> Harm:
    """Lose a disk while the others cut their logs, so that a full state transfer is needed if the logs were long."""
    harm = lose_disk(cluster, chance)

    def undo() -> None:
        for name in harm.serving:
            cluster.regions[name].ask("SAVE")
        harm.undo()

    return replace(harm, undo=undo)


FAULTS: dict[str, Fault] = {
    "link cut": cut_link,
    "link cut one way": cut_one_way,
    "region deaf": deafen_region,
    "region cut off": cut_off_region,
    "all links cut": cut_all_links,
    "links slow": slow_links,
    "links narrow": narrow_links,
    "links lossy": lossy_links,
    "killed": kill_region,
    "killed again and again": kill_again_and_again,
    "all killed": kill_all,
    "cut off and killed": kill_cut_off,
    "stopped": stop_region,
    "disk full": fill_disk,
    "disk full and killed": kill_with_full_disk,
    "disk lost": lose_disk,
    "cut off and disk lost": lose_disk_cut_off,
    "disk lost and logs cut": lose_disk_behind_logs,
}

NEEDS_NAMESPACES = frozenset({"links slow", "links narrow", "links lossy", "disk full", "disk full and killed"})


def await_effects(region: Region) -> None:
    """Wait until the region has applied more effects."""
    goal = region.effects() + ALONE_EFFECTS
    until(lambda: region.effects() >= goal, lambda: f"{region} is written to{region.log_end()}", SERVING_S)


def fill_until_refused(region: Region) -> None:
    """Fill the disk and wait until writes are rejected: the log has preallocated space, so that takes some writes."""
    fill(region.data)
    until(partial(refuses, region), lambda: f"{region} refuses writes{region.log_end()}", SERVING_S)


def refuses(region: Region) -> bool:
    try:
        region.ask("XADD", "probe", "*", "f", "v")
    except redis.ResponseError as error:
        return str(error).startswith("MISCONF")
    return False


def pick(cluster: Cluster, chance: random.Random, count: int) -> list[Region]:
    return chance.sample(list(cluster.regions.values()), count)


def names(cluster: Cluster, without: Region | None = None) -> tuple[str, ...]:
    return tuple(region.name for region in cluster.regions.values() if region is not without)
