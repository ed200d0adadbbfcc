"""Check the rules between gangs of a set: parts stand together, or apart, as those say that state a hard rule.

Parts that state no rule are not bound by any, and a share depends on the order in which parts came: of these nothing is
said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from tierwise.api.codec import Object
from tierwise.api.core import Node, ObjectMeta, Pod
from tierwise.api.koordinator import PodGroup as GangGroup
from tierwise.api.limits import DEPTH
from tierwise.api.volcano import PodGroup
from tierwise.api.workload import CompositePodGroup
from tierwise.api.workload import PodGroup as KubernetesGroup
from tierwise.audit.koordinator import gang_groups
from tierwise.audit.pods import Finding, group, holds
from tierwise.audit.topology import Fabrics, listed
from tierwise.port import Objects

__all__ = ["sets"]

_SET = "tierwise.io/set"
_Rule = tuple[str, str, int, str, str]
"""The set, the tier, how many parts one domain holds at most (0: all parts in one), the fabric, the language."""


Named = tuple[type[Object], Callable[[Pod], str]]
"""The kind that declares gangs of a language, and the one of them that a pod names."""


def sets(objects: Objects, languages: Mapping[str, Named]) -> Iterator[Finding]:
    """Sets whose parts are closer to each other, or further from each other, than their rules allow."""
    rules: dict[_Rule, dict[str, set[str]]] = {}  # by rule, the nodes of each part that states it
    for (language, path), (metas, standing) in _nodes_of_gangs(objects, languages).items():
        if standing:
            for rule, part in _stated(language, path, metas):
                rules.setdefault(rule, {}).setdefault(part, set()).update(standing)
    fabrics = Fabrics(objects)
    for (of, tier, most, fabric, language), parts in sorted(rules.items()):
        domains = _domains(objects, fabrics, fabric, tier, language)
        if most:
            yield from _crowded(of, tier, most, domains, parts)
        elif not any(set().union(*parts.values()) <= domain for domain in domains):
            text = f"{len(parts)} parts must be in one {tier}, and none holds them"
            yield Finding("not-together", f"set {of}", text)


def _stated(language: str, path: str, metas: Sequence[ObjectMeta]) -> Iterator[tuple[_Rule, str]]:
    """The hard rules with a number that the objects of a gang state, each with the part that the gang belongs to."""
    namespace = path.partition("/")[0]
    own = next((text for meta in metas if (text := meta.annotations.get(_SET, "").strip())), "")
    for entry in next((said for meta in metas if (said := [*listed(meta)])), []) if own else ():
        of = str(entry.get("set") or "")
        most = entry.get("apart")
        if not of or isinstance(most, str) or not (own == of or own.startswith(f"{of}/")):
            continue
        part = f"gang {path}" if own == of else own[len(of) + 1 :].partition("/")[0]
        number = most if isinstance(most, int) else 0
        yield (f"{namespace}/{of}", str(entry.get("tier")), number, str(entry.get("fabric") or ""), language), part


def _crowded(
    of: str, tier: str, most: int, domains: Sequence[frozenset[str]], parts: Mapping[str, set[str]]
) -> Iterator[Finding]:
    """Domains with more parts than may stand there."""
    for domain in domains:
        inside = sorted(part for part, own in parts.items() if not own.isdisjoint(domain))
        if len(inside) > most:
            text = f"{len(inside)} parts are in one {tier}, and {most} may: {', '.join(inside[:4])}"
            yield Finding("not-apart", f"set {of}", text)


def _nodes_of_gangs(
    objects: Objects, languages: Mapping[str, Named]
) -> Mapping[tuple[str, str], tuple[list[ObjectMeta], set[str]]]:
    """By language and path, the objects that declare each gang, that of all of it first, and the nodes of its pods.

    Gangs of Koordinator that start together are one gang, and so are the groups below a composite.
    """
    metas: dict[tuple[str, str], ObjectMeta] = {
        ("", path): record.metadata for path, record in objects.every(PodGroup).items()
    }
    others = {name: language for name, language in languages.items() if language[0] is not PodGroup}
    for name, (kind, _) in others.items():
        for path, record in objects.every(kind).items():
            meta: ObjectMeta | None = getattr(record, "metadata", None)
            if meta is not None:
                metas[name, path] = meta
    whole = _wholes(objects)
    found: dict[tuple[str, str], tuple[list[ObjectMeta], set[str]]] = {}
    for (name, path), meta in metas.items():
        top, declared = whole.get((others[name][0], path), (path, [])) if name else (path, [])
        found.setdefault((name, top), (list(declared), set()))[0].append(meta)
    for pod in objects.every(Pod).values():
        for name, path in (("", group(pod)), *((name, named(pod)) for name, (_, named) in others.items())):
            if (name, path) in metas and holds(pod):
                top = whole.get((others[name][0], path), (path, []))[0] if name else path
                found[name, top][1].add(pod.spec.node_name)
    return found


def _wholes(objects: Objects) -> dict[tuple[type[Object], str], tuple[str, list[ObjectMeta]]]:
    """By kind and path of a group that is a part of a gang: what the gang is called, and what declares all of it."""
    found: dict[tuple[type[Object], str], tuple[str, list[ObjectMeta]]] = {}
    for several, _ in gang_groups(objects):
        found |= {(GangGroup, one.key): (several[0].key, []) for one in several if len(several) > 1}
    composites = objects.every(CompositePodGroup)
    for path, record in objects.every(KubernetesGroup).items():
        namespace = path.partition("/")[0]
        parent = record.spec.parent_composite_pod_group_name
        for _ in range(DEPTH):
            above = composites.get(f"{namespace}/{parent}")
            if above is None:
                break
            if above.spec.scheduling_policy.gang is not None or above.spec.scheduling_constraints.topology:
                found[KubernetesGroup, path] = f"{namespace}/{parent}", [above.metadata]
            parent = above.spec.parent_composite_pod_group_name
    return found


def _domains(objects: Objects, fabrics: Fabrics, fabric: str, tier: str, language: str) -> list[frozenset[str]]:
    """The domains that a rule means, as sets of nodes: of hyperNodes, or of the values of a label."""
    level: int | str = int(tier) if tier.isdecimal() else tier
    known = fabrics.domains("" if fabric == "HyperNode" else fabric, level)
    if known or fabric or not language:
        return known
    by_value: dict[str, set[str]] = {}
    for name, node in objects.every(Node).items():
        if value := node.metadata.labels.get(tier, ""):
            by_value.setdefault(value, set()).add(name)
    return [frozenset(names) for names in by_value.values()]
