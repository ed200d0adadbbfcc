"""Rules between gangs of a set hold on every way in which pods get a node, beside counting rack by rack."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import product

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples
from tests.support.drawn_gang import Gang, Groups
from tests.support.field_scenes import all_objects
from tests.support.koordinator import objects_of
from tests.support.sets import CONSTRAINTS, apart, fabric, part, racks_of, together
from tests.support.sight import saw, schedule, sees

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.audit import audit
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.port import Objects

_TIERS = (
    tuple(map(PluginChoice, ("priority", "gang", "conformance", "predicates", "network-topology-aware", "places"))),
)
_EVICTS = Profile(("enqueue", "allocate", "gangpreempt", "backfill"), _TIERS)
_RESERVES = Profile(
    ("enqueue", "allocate", "backfill"), _TIERS, action_arguments={"allocate": {"reservations": "conservative"}}
)


class Member(msgspec.Struct, frozen=True):
    """A gang of one cpu a pod, inside one rack."""

    tasks: int
    more: int  # pods beyond its minimum
    of: str  # its set; "" for none
    most: int  # parts of the set in its rack; 0: it states no rule, -1: they share a rack
    priority: int
    start: bool = False  # its set starts with two gangs
    anywhere: bool = False  # it states no limit, which one pod does not need

    def manifests(self, name: str) -> list[Raw]:
        rules = [] if not self.most else [together(self.of)] if self.most < 0 else [apart(self.of, self.most)]
        start = 2 if self.start else 0
        within = None if self.anywhere and self.tasks + self.more == 1 else "rack"
        named = {"within": within, "minimum": self.tasks, "priority": self.priority}
        if not self.of:
            return Gang(name, tasks=self.tasks + self.more, **named).manifests()  # type: ignore[arg-type]
        return part(name, self.tasks + self.more, self.of, *rules, start=start, **named)


_MEMBERS = st.builds(
    Member,
    tasks=st.integers(1, 3),
    more=st.sampled_from([0, 0, 0, 1, 2]),
    of=st.sampled_from(["", "a", "a", "a", "b"]),
    most=st.sampled_from([0, 1, 1, 1, 2, -1]),
    priority=st.sampled_from([0, 0, 5]),
    anywhere=st.booleans(),
)
_RACKS = st.lists(st.integers(1, 5), min_size=1, max_size=4)


def _world(sizes: Sequence[int]) -> list[Raw]:
    return fabric({"s0": " ".join(f"r{i}:{size}" for i, size in enumerate(sizes))})


def _free(objects: Objects, sizes: Sequence[int]) -> dict[str, int]:
    """How many nodes of each rack no pod holds."""
    left = {f"r{i}": size for i, size in enumerate(sizes)}
    for pod in objects.every(Pod).values():
        if pod.spec.node_name:
            left[pod.spec.node_name.rpartition("n")[0]] -= 1
    return left


def _parts(objects: Objects, of: str, members: Mapping[str, Member], *, but: str) -> dict[str, set[str]]:
    """The gangs of a set in each rack, without one of them."""
    bound = {
        path.partition("/")[2]: pod.spec.node_name for path, pod in objects.every(Pod).items() if pod.spec.node_name
    }
    found: dict[str, set[str]] = {}
    for gang, racks in racks_of(bound).items():
        if gang != but and members[gang].of == of:
            for rack in racks.split():
                found.setdefault(rack, set()).add(gang)
    return found


def _may_stand(
    gang: str, member: Member, objects: Objects, members: Mapping[str, Member], sizes: Sequence[int]
) -> set[str]:
    """The racks in which a gang finds its place, as things are: counted rack by rack."""
    free, others = _free(objects, sizes), _parts(objects, member.of, members, but=gang)
    able = {rack for rack, left in free.items() if left >= member.tasks}
    if member.of and member.most > 0:
        able = {rack for rack in able if len(others.get(rack, ())) < member.most}
    if member.of and member.most < 0 and others:
        stating = {rack for rack, gangs in others.items() if any(members[gang].most < 0 for gang in gangs)}
        able &= stating or set(others)
    return able


@sees(binds=5, refusals=1)
@given(_RACKS, st.lists(_MEMBERS, min_size=2, max_size=7))
@examples(60)
def test_a_gang_of_a_set_starts_exactly_where_counting_finds_a_rack(sizes: list[int], drawn: list[Member]) -> None:
    """In the end no gang waits that some rack would take, and none stands where its rule forbids it."""
    members = {f"g{i}": member for i, member in enumerate(drawn)}
    manifests = [raw for name, member in members.items() for raw in member.manifests(name)]

    history = schedule(objects_of(_world(sizes), manifests), DEFAULT, now=0.0)

    objects = history.cluster.read()
    standing = {path.rpartition("/")[2].rpartition("-")[0] for path in history.bindings}
    for name, member in members.items():
        if name not in standing:
            saw(refusals=1)
            assert set() == _may_stand(name, member, objects, members, sizes)
    assert [] == _broken(objects, members)


def _broken(objects: Objects, members: Mapping[str, Member]) -> list[str]:
    """Gangs in a rack that holds more parts than they allow, told whoever came last; what the audit says as well."""
    found = [str(finding) for finding in audit(objects) if finding.rule in ("not-apart", "not-together")]
    uniform = {of: {m.most for m in members.values() if m.of == of} for of in ("a", "b")}
    for of, rules in uniform.items():
        if len(rules) == 1 and (most := next(iter(rules))) > 0:
            racks = _parts(objects, of, members, but="")
            found += [f"{rack} has {sorted(gangs)}" for rack, gangs in racks.items() if len(gangs) > most]
    return found


@sees(binds=5, evictions=1)
@given(_RACKS, st.lists(_MEMBERS, min_size=2, max_size=5), st.lists(_MEMBERS, min_size=1, max_size=4), st.data())
@examples(60)
def test_rules_hold_while_gangs_come_go_and_are_evicted(
    sizes: list[int], first: list[Member], then: list[Member], data: st.DataObject
) -> None:
    """Surplus, nominations, evictions, replacements of lost pods and new gangs: each rule holds after every cycle."""
    members = {f"g{i}": member for i, member in enumerate(first)}
    manifests = [raw for name, member in members.items() for raw in member.manifests(name)]
    objects = schedule(objects_of(_world(sizes), manifests), DEFAULT, now=0.0).cluster.read()
    assert [] == _broken(objects, members)

    lost = data.draw(st.sets(st.integers(0, 8), max_size=3))
    kept = [raw for i, raw in enumerate(all_objects(objects).values()) if not (raw["kind"] == "Pod" and i % 9 in lost)]
    members |= {f"h{i}": msgspec.structs.replace(member, priority=9) for i, member in enumerate(then)}
    more = [raw for name, member in members.items() if name.startswith("h") for raw in member.manifests(name)]
    for profile in (_EVICTS, _RESERVES):
        history = schedule(objects_of(kept, more), profile, now=10.0)
        assert [] == _broken(history.cluster.read(), members)


@sees(binds=5, refusals=1)
@given(
    _RACKS,
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.sampled_from([0, 1, -1]),
    st.lists(_MEMBERS, max_size=2),
)
@examples(60)
def test_a_set_that_starts_together_starts_exactly_where_two_gangs_find_racks(
    sizes: list[int], tasks: list[int], most: int, drawn: list[Member]
) -> None:
    """The first two gangs are placed at once, or neither; where neither is, no two racks would take them."""
    members = {f"j{i}": Member(number, 0, "j", most, 0, start=True) for i, number in enumerate(tasks)}
    others = {f"g{i}": member for i, member in enumerate(drawn)}
    manifests = [raw for name, member in (members | others).items() for raw in member.manifests(name)]

    history = schedule(objects_of(_world(sizes), manifests), DEFAULT, now=0.0)

    objects = history.cluster.read()
    standing = {path.rpartition("/")[2].rpartition("-")[0] for path in history.bindings} & members.keys()
    assert [] == _broken(objects, members | others)
    if not standing:
        saw(refusals=1)
        free = _free(objects, sizes)
        first = [members["j0"], members["j1"]]
        assert not any(_both_fit(first, racks, free) for racks in product(free, repeat=2))
    assert len(standing) != 1


def _both_fit(gangs: Sequence[Member], racks: Sequence[str], free: Mapping[str, int]) -> bool:
    """Whether two gangs stand in these racks, by counting."""
    most = gangs[0].most
    if (most == 1 and racks[0] == racks[1]) or (most < 0 and racks[0] != racks[1]):
        return False
    return all(free[rack] >= sum(g.tasks for g, own in zip(gangs, racks, strict=True) if own == rack) for rack in racks)


@sees(binds=5, refusals=1)
@given(_RACKS, st.integers(1, 5), st.integers(1, 3), st.integers(1, 2), st.integers(0, 2), st.booleans())
@examples(80)
def test_sub_groups_stand_apart_exactly_where_racks_are_enough(
    sizes: list[int], count: int, size: int, most: int, more: int, soft: bool
) -> None:
    """Each rack takes as many alike sub-groups as fit, and no more than it may; those beyond the minimum follow."""
    rule = {"tier": "rack", "subGroup": "part", "apart": most, "mode": "soft" if soft else "hard"}
    groups = (Groups(count=count + more, size=size, within="rack", minimum=count),)
    marks = {CONSTRAINTS: json.dumps([rule])}
    gang = Gang("g", groups=groups, minimum=count * size, marks=marks).manifests()

    history = schedule(objects_of(_world(sizes), gang), DEFAULT, now=0.0)

    room = [number // size for number in sizes]
    held = sum(min(most, number) for number in room)
    able = sum(room) if soft and held < count else held
    placed = min(count + more, able) if able >= count else 0
    where: dict[str, set[str]] = {}
    for pod, node in history.bindings.items():
        where.setdefault(node.rpartition("n")[0], set()).add(pod.rpartition("-")[0])
    started = sum(map(len, where.values()))
    saw(refusals=not started)
    assert started == placed if not soft else started >= placed
    if not soft or (held >= count and not more):
        assert all(len(inside) <= most for inside in where.values())
    assert [] == [str(finding) for finding in audit(history.cluster.read()) if finding.rule == "not-apart"]
