"""A tree from switches that name their nodes and the switches below them, as Slurm's configuration does.

Called by the two Slurm readers, and by `topology import` for its planes. Switches with the same members are planes of
one domain: Slurm's own guide lists four spines over the same leaves, and then advises to list one. Any other switch
with two parents, and a node on two switches that differ, cannot be told in a tree and is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from tierwise.api.natural import natural
from tierwise.discovery.tree import Discovered, Path, Remark, Step, Tree

__all__ = ["Switch", "grown", "without_planes"]


class Switch(msgspec.Struct, frozen=True):
    """A switch as it was written, and where."""

    name: str
    nodes: tuple[str, ...]
    children: tuple[str, ...]
    where: str


def grown(written: Sequence[Switch], tier_names: Mapping[int, str] | None = None) -> Discovered:
    """The tree of these switches: tier 1 has nodes alone, every other switch stands one above its highest child."""
    remarks = list(_references(written))
    if remarks:
        return Discovered.failed(*remarks)
    switches, parents, merged = without_planes(written)
    remarks += merged
    heights = _heights(switches)
    for switch in switches.values():
        if switch.name not in heights:
            remarks.append(Remark(switch.where, f"switch {switch.name} is below itself, or holds one that is"))
    if any(remark.error for remark in remarks):
        return Discovered.failed(*remarks)
    places = {node: _path(switch.name, parents, heights) for switch in switches.values() for node in switch.nodes}
    remarks += _empty(switches.values(), places)
    return Discovered.of(Tree(places, tier_names or {}, unique=True), remarks)


def _references(switches: Iterable[Switch]) -> Iterator[Remark]:
    """Names given twice, and children that do not exist."""
    first: dict[str, Switch] = {}
    for switch in switches:
        if switch.name in first:
            yield Remark(switch.where, f"switch {switch.name} is given twice, first at {first[switch.name].where}")
        first.setdefault(switch.name, switch)
    for switch in first.values():
        for child in switch.children:
            if child not in first:
                yield Remark(switch.where, f"switch {switch.name} names switch {child}, which does not exist")


def without_planes(written: Sequence[Switch]) -> tuple[dict[str, Switch], dict[str, str], list[Remark]]:
    """The switches with one for all that have the same members, the parent of each, and what is to be said.

    A warning for each switch that stands for others; an error for whatever still has two parents.
    """
    switches, remarks = _merged(written)
    parents: dict[str, str] = {}
    remarks += _claims(switches.values(), parents)
    return switches, parents, remarks


def _merged(written: Sequence[Switch]) -> tuple[dict[str, Switch], list[Remark]]:
    switches = {switch.name: switch for switch in sorted(written, key=lambda switch: natural(switch.name))}
    planes: dict[str, list[str]] = {}
    while True:
        kept: dict[tuple[frozenset[str], frozenset[str]], str] = {}
        instead: dict[str, str] = {}
        for switch in switches.values():
            members = frozenset(switch.nodes), frozenset(switch.children)
            if any(members):
                one = kept.setdefault(members, switch.name)
                if one != switch.name:
                    instead[switch.name] = one
                    planes.setdefault(one, []).extend([switch.name, *planes.pop(switch.name, [])])
        if not instead:
            break
        # Whoever named one of the planes now names the one that stands for all; that may make further ones alike.
        switches = {
            name: replace(switch, children=tuple(dict.fromkeys(instead.get(c, c) for c in switch.children)))
            for name, switch in switches.items()
            if name not in instead
        }
    remarks = [
        Remark(
            switches[one].where,
            f"switch {one} stands for {', '.join(sorted(others, key=natural))} too: they have the same members",
            error=False,
        )
        for one, others in planes.items()
    ]
    return switches, remarks


def _claims(switches: Iterable[Switch], parents: dict[str, str]) -> Iterator[Remark]:
    """Fills in who is below whom; errors for switches and nodes that several claim."""
    homes: dict[str, str] = {}
    for switch in switches:
        for child in dict.fromkeys(switch.children):
            other = parents.setdefault(child, switch.name)
            if other != switch.name:
                yield Remark(switch.where, f"switch {child} is below {switch.name} and below {other}: two parents")
        for node in dict.fromkeys(switch.nodes):
            other = homes.setdefault(node, switch.name)
            if other != switch.name:
                yield Remark(switch.where, f"node {node} is on switch {switch.name} and on {other}")


def _heights(switches: Mapping[str, Switch]) -> dict[str, int]:
    """The tier of each switch; those in or above a circle have none."""
    waiting = {name: len(set(switch.children)) for name, switch in switches.items()}
    above: dict[str, list[str]] = {}
    for name, switch in switches.items():
        for child in set(switch.children):
            above.setdefault(child, []).append(name)
    heights: dict[str, int] = {}
    ready = [name for name, count in waiting.items() if count == 0]
    while ready:
        name = ready.pop()
        heights[name] = 1 + max((heights[child] for child in switches[name].children), default=0)
        for parent in above.get(name, ()):
            waiting[parent] -= 1
            if waiting[parent] == 0:
                ready.append(parent)
    return heights


def _path(name: str, parents: Mapping[str, str], heights: Mapping[str, int]) -> Path:
    steps = [Step(heights[name], name)]
    while steps[-1].name in parents:
        above = parents[steps[-1].name]
        steps.append(Step(heights[above], above))
    return tuple(reversed(steps))


def _empty(switches: Iterable[Switch], places: Mapping[str, Path]) -> Iterator[Remark]:
    used = {step.name for place in places.values() for step in place}
    for switch in switches:
        if switch.name not in used:
            yield Remark(switch.where, f"no node is below switch {switch.name}: it is left out", error=False)
