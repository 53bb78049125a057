"""What is timed, and when."""

from __future__ import annotations

from crdtstream.runtime.metrics.meters import Meters
from crdtstream.storage.log import Log
from tests.running_region import until


class FakeLog:
    def __init__(self, meters: Meters) -> None:
        self.synced_position, self.last_position = 3, 3
        self.meters = meters
        self.seen: list[bool] = []

    def sync(self) -> int:
        self.seen.append(self.meters.sync_began_s is not None)
        return self.last_position


def test_only_syncs_that_have_something_to_do_are_timed() -> None:
    meters = Meters()
    fake = FakeLog(meters)
    log: Log = fake  # type: ignore[assignment]
    assert meters.sync_log(log) == 3 and sum(meters.sync.counts) == 0
    fake.last_position = 4
    assert meters.sync_log(log) == 4 and sum(meters.sync.counts) == 1
    assert fake.seen == [False, True] and meters.syncing_s() == 0.0


async def test_a_late_loop_is_seen() -> None:
    meters = Meters()
    await meters.sleep(0.0)
    assert sum(meters.loop_lag.counts) == 1
    meters.sync_began_s = 0.0
    await until(lambda: meters.syncing_s() > 0, "time passes")
