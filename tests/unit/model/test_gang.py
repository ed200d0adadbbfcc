"""The shape of a gang: one form for all ways to declare it, and one walk that says what is lacking."""

from __future__ import annotations

from random import Random
from weakref import ref

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.draw import Gang, Groups, Role, draw, objects_of

from tierwise.config.profile import DEFAULT
from tierwise.model.gang import LONE, GroupForm, LeafForm, around, gang_shape, lacking, without
from tierwise.model.job import Constraint, Job
from tierwise.snapshot.builder import build

_IN_SHAPE = frozenset(
    {
        "minimum",
        "roles",
        "constraint",
        "policies",
        "subs",
        "pattern",
        "gather",
        "ladder",
        "inner_groups",
        "further",
        "sizes",
    }
)
"""What of a job its shape reads; of `subs` the minimums, limits, policies and groups around them."""

_PROGRESS = frozenset({"phase", "tasks", "best_effort_pod_sets", "role_ready", "ranks", "world_size", "satisfied"})
"""Who waits, who runs, and what follows from that."""

_WHO = frozenset(
    {"key", "number", "queue", "priority", "created", "order", "declared", "owner", "lone", "gangs", "predecessor"}
)
"""Which gang it is, and when it is served."""

_NEITHER = frozenset(
    {
        "min_resources",  # amounts by index, and the axis changes
        *("role_names", "part_names"),
        *("member", "labels"),  # of a set of gangs, which has rules of its own
        *("language", "declared_by", "scheduler", "awaits"),
        *("missing", "unsupported", "unready", "refusal", "sla"),  # gates
        *("not_preemptable", "never_preempts", "together", "terms", "repair"),  # evictions
        *("expected_start", "reserved"),  # what was said of it before
    }
)


def test_every_field_of_a_job_is_in_its_shape_or_named_as_none_of_it() -> None:
    """Whoever adds a field says whether gangs that differ in it have one shape."""
    assert {*Job.__struct_fields__} == _IN_SHAPE | _PROGRESS | _WHO | _NEITHER


def _job(gang: Gang) -> Job:
    (job,) = build(objects_of(draw("r0[n0]"), gang), 0.0, DEFAULT).jobs
    return job


_CUT = Gang("g", minimum=3, within=2, roles=(Role("a", 2, minimum=1),), groups=(Groups(2, 2, minimum=1, within=1),))


@pytest.mark.parametrize(
    "other",
    [
        replace(_CUT, minimum=4),
        replace(_CUT, within=1),
        replace(_CUT, within=None),
        replace(_CUT, soft=True),
        replace(_CUT, roles=(Role("a", 2, minimum=2),)),
        replace(_CUT, roles=()),
        replace(_CUT, groups=(Groups(3, 2, minimum=1, within=1),)),
        replace(_CUT, groups=(Groups(2, 2, minimum=2, within=1),)),
        replace(_CUT, groups=(Groups(2, 1, tasks=2, minimum=1, within=1),)),
        replace(_CUT, groups=(Groups(2, 2, minimum=1, within=2),)),
        replace(_CUT, marks={"tierwise.io/pattern": "ring"}),
        replace(_CUT, marks={"tierwise.io/topology-ladder": "1=10m,any"}),
    ],
)
def test_what_a_gang_needs_is_in_its_shape(other: Gang) -> None:
    """Of gangs that need something else, or elsewhere, neither has the shape of the other."""
    assert _job(_CUT).shape != _job(other).shape


def test_alike_gangs_share_their_shape() -> None:
    """Name, queue, priority, age and the size of the pods are not in it."""
    other = replace(_CUT, name="h", queue="q", priority=5, created=7, each="cpu=2")

    assert _job(_CUT).shape is _job(other).shape


def test_a_shape_is_forgotten_with_its_last_gang() -> None:
    """Shapes that no job has any more take no room."""
    shape = gang_shape(77, leaves=(LeafForm(77),))
    kept = ref(shape)

    del shape

    assert None is kept()


def test_a_copy_of_a_job_has_its_own_shape() -> None:
    """What is declared anew, as by a what-if, has the shape of what it declares now."""
    job = _job(_CUT)
    wide = job.shape

    near = replace(job, constraint=Constraint(hard=True, tier=1))

    assert wide != near.shape
    assert wide == replace(near, constraint=job.constraint).shape


def test_one_pod_by_itself() -> None:
    """All lone pods that ask for no place have one shape."""
    assert LONE is _job(Gang("g", tasks=1)).shape


# -- what is lacking, beside the declarations


class _Drawn(msgspec.Struct, frozen=True):
    """A nested gang of two levels of groups: so many parts of each group must be whole."""

    minimum: int
    groups: tuple[GroupForm, ...]
    leaves: tuple[LeafForm, ...]


def _drawn(chance: Random) -> _Drawn:
    groups = [GroupForm(-1, chance.randint(1, 3))]
    groups += [GroupForm(chance.randrange(number + 1), chance.randint(0, 2)) for number in range(chance.randint(0, 4))]
    leaves = [LeafForm(chance.randint(0, 3), 0, chance.randrange(-1, len(groups))) for _ in range(chance.randint(1, 6))]
    return _Drawn(chance.randint(1, 6), tuple(groups), tuple(leaves))


def _missing(drawn: _Drawn, ready: list[int], group: int) -> int:
    """How many parts a group lacks, by its definition."""
    own = [n >= leaf.size for n, leaf in zip(ready, drawn.leaves, strict=True) if leaf.group == group and leaf.size]
    inner = [_missing(drawn, ready, i) <= 0 for i, other in enumerate(drawn.groups) if other.parent == group]
    return drawn.groups[group].minimum - sum(own) - sum(inner)


@pytest.mark.parametrize("seed", range(200))
def test_nested_groups_lack_what_their_definition_says(seed: int) -> None:
    """A part counts in the group around it once it is whole, at every depth."""
    chance = Random(seed)
    drawn = _drawn(chance)
    shape = gang_shape(drawn.minimum, policies=(0,), groups=drawn.groups, leaves=drawn.leaves)
    ready = [chance.randint(0, 4) for _ in drawn.leaves]

    left = lacking(shape, ready)

    assert [_missing(drawn, ready, i) for i in range(len(drawn.groups))] == [numbers[0] for numbers in left]
    assert drawn.minimum - sum(ready) == left[0][1]


@pytest.mark.parametrize("seed", range(200))
def test_one_pod_fewer_is_what_the_walk_finds(seed: int) -> None:
    """The numbers that a pod takes one from are those by which two walks differ."""
    chance = Random(seed)
    drawn = _drawn(chance)
    shape = gang_shape(drawn.minimum, policies=(0,), groups=drawn.groups, leaves=drawn.leaves)
    ready = [chance.randint(1, 4) for _ in drawn.leaves]
    leaf = chance.randrange(len(ready))
    expected = lacking(shape, [number - (i == leaf) for i, number in enumerate(ready)])

    left = lacking(shape, ready)
    for slot in without(shape, left, leaf, -1, ready[leaf]):
        left[slot.group][slot.at] += 1

    assert expected == left


def test_two_levels_need_tasks_whole_groups_and_roles() -> None:
    """All of these numbers at once: four pods, one whole group of a policy, two pods of a role."""
    leaves = (LeafForm(1), LeafForm(2, policy=0), LeafForm(2, policy=0))
    shape = gang_shape(4, roles=(2,), policies=(1,), leaves=leaves)

    assert [[4, 1, 2]] == lacking(shape, [0, 0, 0], [0])
    assert [[1, 0, 1]] == lacking(shape, [1, 2, 0], [1])
    assert [[0, -1, 2]] == lacking(shape, [0, 2, 2], [0])


def test_groups_around_another_come_from_the_inside_out() -> None:
    """None are around the pods that are in no group."""
    shape = gang_shape(1, groups=(GroupForm(-1, 1), GroupForm(0, 1), GroupForm(1, 1)), leaves=(LeafForm(1, 0, 2),))

    assert [2, 1, 0] == list(around(shape, 2))
    assert [] == list(around(shape, -1))
