"""What comes before a bind: writes first, gangs that wait whole, failures that take everything back."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace
from tests.support.draw import draw, gang, objects_of

from tierwise.config.profile import DEFAULT, PluginChoice
from tierwise.framework.declaration import takes_part
from tierwise.framework.extension import Arguments, CycleView, PreBind, Preparation
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Reason, Task
from tierwise.model.snapshot import Snapshot
from tierwise.plugins import PLUGINS
from tierwise.port import Bind, Effect, Key, Nominate, Prepare
from tierwise.scheduler import cycle
from tierwise.scheduler.effects import amended, effects
from tierwise.sim.cluster.store import EmbeddedCluster
from tierwise.snapshot.builder import build


def _write(name: str) -> Prepare:
    return Prepare(Key("", "Pod", "default", name), {"metadata": {"labels": {"ready": "yes"}}}, gang="default/train")


def _run(answers: Mapping[str, Preparation], minimum: int = 3) -> tuple[Snapshot, CycleReport, list[Effect]]:
    """A gang of three, with what a plugin says about some of its pods."""

    @takes_part(PreBind)
    class Storage:
        def __init__(self, arguments: Arguments, view: CycleView) -> None:
            pass

        def before_bind(self, job: Job, task: Task, row: int) -> Preparation | None:
            return answers.get(task.key.removeprefix("default/"))

    world = draw("r0[n0 n1 n2]")
    snapshot = build(objects_of(world, gang("train", tasks=3, each="cpu=4", minimum=minimum)), now=0.0)
    profile = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("storage"),)))
    report = cycle(snapshot, profile, plugins={**PLUGINS, "storage": Storage})
    return snapshot, report, effects(snapshot, report)


_SLOW = Reason("VolumeBinding", "volumes", "claim default/a waits for its volume")


def test_writes_come_before_binds() -> None:
    """What must be written goes out first, once, and the gang is bound in the same effects."""
    write = _write("train-0")
    _, _, asked = _run({"train-0": Preparation(writes=(write,)), "train-1": Preparation(writes=(write,))})

    assert [Prepare, Bind, Bind, Bind] == [type(effect) for effect in asked]


def test_a_gang_waits_whole() -> None:
    """One pod that waits keeps the gang from being bound; its nodes are kept, and the reason tells of it."""
    waits = Preparation(writes=(_write("train-1"),), waits=_SLOW, until=600.0)
    _, report, asked = _run({"train-1": waits})

    assert [Prepare, Nominate, Nominate, Nominate] == [type(effect) for effect in asked]
    assert "1 of 3 pods waits: claim default/a waits for its volume" == report.rejections["default/train"].reason.text
    assert 600.0 == report.retry_after(0.0)


def test_pods_beyond_the_minimum_wait_alone() -> None:
    """Where the minimum stands without the pod that waits, the others are bound."""
    _, report, asked = _run({"train-1": Preparation(waits=_SLOW)}, minimum=2)

    assert {"train-0", "train-2"} == {effect.pod.name for effect in asked if isinstance(effect, Bind)}
    assert {"train-1"} == {effect.pod.name for effect in asked if isinstance(effect, Nominate)}
    assert "VolumeBinding" == report.rejections["default/train"].reason.code


def test_a_failure_takes_everything_back() -> None:
    """Nothing is bound or nominated, and what was written for any pod of the gang is undone."""
    failed = Reason("VolumeBindingFailed", "volumes", "the provisioner refused claim default/a")
    undo = (_write("train-0"), _write("train-2"))
    said = {"train-0": Preparation(undo=undo[:1]), "train-1": Preparation(failed=failed)}
    _, report, asked = _run(said | {"train-2": Preparation(writes=(_write("train-1"),), undo=undo[1:])})

    assert list(undo) == asked
    assert failed == report.rejections["default/train"].reason
    assert not report.decisions


def test_binds_are_withheld_where_a_write_fails() -> None:
    """The embedded cluster binds no pod of the gang, and the job hears what could not be written."""
    _, report, asked = _run({"train-0": Preparation(writes=(_write("gone"),))})
    outcomes = EmbeddedCluster(objects_of(draw("r0[n0 n1 n2]"), gang("train", tasks=3, each="cpu=4"))).apply(asked)

    assert [False] * 4 == [outcome.ok for outcome in outcomes]
    told = amended(report, outcomes).rejections["default/train"].reason
    assert "BindFailed" == told.code
    assert "3 of 3 pods could not be bound: Pod default/gone: Pod default/gone does not exist" == told.text
