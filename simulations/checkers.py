"""All invariants of a run, and how to check them."""

from __future__ import annotations

from functools import partial

from simulations.checking import Checker
from simulations.collection_checkers import ForgetsInTheEnd, ForgetsOnlyStable
from simulations.cursor_checkers import ReadsEachOnce
from simulations.deletion_checkers import DeletionsAreTold
from simulations.delivery_checkers import DeliverersAgree, DeliversByRecord, HearsFirst, OneConsumer
from simulations.expiry_checkers import ExpiresInTime, LongestExpiry, RestartsEmpty
from simulations.history_checkers import (
    AcknowledgedOnly,
    DeliveredAtLeastOnce,
    NoLostGroup,
    NoLostWrite,
    UniqueDots,
    UniqueIds,
)
from simulations.letter_checkers import OneLetter
from simulations.name_checkers import AcknowledgedByName, NamesSurviveRestarts, OneForOneName
from simulations.order_checkers import OrderByKey
from simulations.partition_checkers import partition_checkers
from simulations.queue_checkers import AcknowledgedExactly, OneProperty
from simulations.repeat_checkers import Repeats, Resets
from simulations.retention_checkers import KeepsWhatIsNeeded, OneLimit, RemovesInTime, RemovesWithinLimits
from simulations.room_checkers import FreesFullDisk, WaitsForRoom
from simulations.session_checkers import ReadsItsWrites
from simulations.shard_checkers import shard_checkers
from simulations.sharded import Run
from simulations.spill_checkers import spill_checkers
from simulations.state_checkers import (
    AuditsAgree,
    Convergence,
    DamageIsRot,
    DeleteWins,
    Invariants,
    NoResurrection,
    ObservedRemove,
    Recovered,
    UnionOfRuns,
)
from simulations.wire_checkers import Fitting, NoEcho, OriginOrder, PartsGoOn, ResumesFromLog, SyncedFirst


def all_checkers() -> list[Checker]:
    return [
        Invariants(),
        DamageIsRot(),
        OriginOrder(),
        NoEcho(),
        SyncedFirst(),
        Fitting(),
        ForgetsOnlyStable(),
        ResumesFromLog(),
        PartsGoOn(),
        WaitsForRoom(),
        FreesFullDisk(),
        NoResurrection(),
        ExpiresInTime(),
        AcknowledgedOnly(),
        ForgetsInTheEnd(),
        DeletionsAreTold(),
        Convergence(),
        ObservedRemove(),
        LongestExpiry(),
        RestartsEmpty(),
        DeleteWins(),
        UnionOfRuns(),
        OneProperty(),
        AcknowledgedExactly(),
        OneLimit(),
        RemovesWithinLimits(),
        KeepsWhatIsNeeded(),
        RemovesInTime(),
        DeliversByRecord(),
        HearsFirst(),
        OneConsumer(),
        Repeats(),
        DeliverersAgree(),
        OneForOneName(),
        OneLetter(),
        AcknowledgedByName(),
        NamesSurviveRestarts(),
        NoLostWrite(),
        NoLostGroup(),
        UniqueIds(),
        UniqueDots(),
        DeliveredAtLeastOnce(),
        Resets(),
        Recovered(),
        AuditsAgree(),
        *partition_checkers(),
        OrderByKey(),
        ReadsItsWrites(),
        ReadsEachOnce(),
        *spill_checkers(),
        *shard_checkers(),
    ]


def run_checked(run: Run, checkers: list[Checker] | None = None, only: str = "") -> None:
    """Run a world under these checkers, by default all of that name; raises the first Violation. Each shard has its
    own.
    """
    watching = []
    for world in run.worlds:
        chosen = [one for one in all_checkers() if only in ("", one.name)] if checkers is None else checkers
        for checker in chosen:
            world.watch(checker)
        watching.append((world, chosen))
    run.run()
    for world, chosen in watching:
        with world.named_violations():
            for checker in chosen:
                world.look(partial(checker.at_end, world))
