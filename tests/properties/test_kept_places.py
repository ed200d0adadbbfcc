"""Who must leave a place to a gang that has declined it is told so once for each kind, as if each were searched for."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.draw import draw
from tests.support.reservations import MINUTE, NOW, job, running
from tests.support.sight import saw, sees

from tierwise.actions.batches import Batches
from tierwise.actions.diagnosis.rejection_cache import RejectionCache
from tierwise.api import codec
from tierwise.config.profile import DEFAULT
from tierwise.framework.report import CycleReport
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.scheduler import cycle
from tierwise.snapshot.builder import build

_RACKS = [" ".join(f"n{4 * rack + i}" for i in range(4)) for rack in range(9)]
_SPINES = " ".join(f"s{i}[r{3 * i}[{{}}] r{3 * i + 1}[{{}}] r{3 * i + 2}[{{}}]]" for i in range(3))
TREE = draw(_SPINES.format(*_RACKS), node="gpu=8")


def busy(pick: Random) -> Snapshot:
    """A cluster of whole hosts that are in use until stated times, and gangs that wait for such."""
    raws = list(TREE.manifests)
    hosts = pick.sample([f"n{i}" for i in range(36)], pick.randrange(24, 32))
    for i, host in enumerate(hosts):
        raws += running(f"a{i}", host, ends_in=pick.randrange(1, pick.choice((30, 30, 600))) * MINUTE)
    for i in range(20):
        lasts = f"{pick.choice((5, 600, 1200, 3000))}m" if pick.random() < 0.9 else ""
        close = {"soft": True} if pick.random() < 0.2 else {"within": 2}
        settings = {**close, "priority": 5} if pick.random() < 0.1 else close
        raws += job(f"w{i}", pick.choice((2, 2, 3, 3, 5)), lasts=lasts, turn=3000 + i, **settings)
    return build(Objects.of((codec.decode(raw), raw) for raw in raws), NOW, DEFAULT)


def told(report: CycleReport) -> tuple[object, ...]:
    """What was decided, and who waits why; which of several gangs keeps a place is left out."""
    decisions = [(d.job.key, d.bound, sorted((task.key, row) for task, row in d.places())) for d in report.decisions]
    waiting = [
        (key, one.stage, one.reason.code, "" if one.reason.code == "PlaceIsKept" else one.reason.text, one.verdict)
        for key, one in report.rejections.items()
    ]
    return decisions, sorted(waiting, key=str), sorted(report.delays.items())


@sees(kept=40, again=20)
@given(seed=st.integers(0, 2**32))
@examples(80, least=20)
def test_what_a_kind_is_told_is_what_each_would_be_told(seed: int) -> None:
    """Whole cycles, with what is remembered of kinds and without it."""
    snapshot = busy(Random(seed))
    kept_place, again = RejectionCache.kept_place, 0

    def counted(self: RejectionCache, *asked: object) -> object:
        nonlocal again
        found = kept_place(self, *asked)  # type: ignore[arg-type]
        again += found is not None
        return found

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Batches, "_planned", lambda *_: None)  # else fewer searches leave more of their budget
        patched.setattr(RejectionCache, "kept_place", counted)
        remembered = cycle(snapshot, DEFAULT)
        patched.setattr(RejectionCache, "kept_place", lambda *_: None)
        assert told(cycle(snapshot, DEFAULT)) == told(remembered)
    saw(kept=sum(one.reason.code == "PlaceIsKept" for one in remembered.rejections.values()), again=again)
