"""Check the rules between gangs of a set: parts stand together, or apart, as those say that state a hard rule.

Parts that state no rule are not bound by any, and a share depends on the order in which parts came: of these nothing is
said here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from tierwise.api.codec import Object
from tierwise.api.core import Node, ObjectMeta, Pod
from tierwise.api.volcano import PodGroup
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
    nodes = _nodes_of_gangs(objects, languages)
    rules: dict[_Rule, dict[str, set[str]]] = {}  # by rule, the nodes of each part that states it
    for (language, path), (meta, standing) in nodes.items():
        namespace, own = path.partition("/")[0], meta.annotations.get(_SET, "").strip()
        for entry in listed(meta) if own and standing else ():
            of, most = str(entry.get("set") or ""), entry.get("apart")
            if not of or isinstance(most, str) or not (own == of or own.startswith(f"{of}/")):
                continue
            part = f"gang {path}" if own == of else own[len(of) + 1 :].partition("/")[0]
            number = most if isinstance(most, int) else 0
            key = f"{namespace}/{of}", str(entry.get("tier")), number, str(entry.get("fabric") or ""), language
            rules.setdefault(key, {}).setdefault(part, set()).update(standing)
    fabrics = Fabrics(objects)
    for (of, tier, most, fabric, language), parts in sorted(rules.items()):
        domains = _domains(objects, fabrics, fabric, tier, language)
        if most:
            for domain in domains:
                inside = sorted(part for part, own in parts.items() if not own.isdisjoint(domain))
                if len(inside) > most:
                    text = f"{len(inside)} parts stand in one {tier}, and {most} may: {', '.join(inside[:4])}"
                    yield Finding("not-apart", f"set {of}", text)
        elif not any(set().union(*parts.values()) <= domain for domain in domains):
            yield Finding(
                "not-together", f"set {of}", f"{len(parts)} parts must stand in one {tier}, and none holds them"
            )


def _nodes_of_gangs(
    objects: Objects, languages: Mapping[str, Named]
) -> Mapping[tuple[str, str], tuple[ObjectMeta, set[str]]]:
    """By language and path, the marks of each gang that an object declares, and the nodes of its pods."""
    found: dict[tuple[str, str], tuple[ObjectMeta, set[str]]] = {
        ("", path): (record.metadata, set()) for path, record in objects.every(PodGroup).items()
    }
    others = {name: language for name, language in languages.items() if language[0] is not PodGroup}
    for name, (kind, _) in others.items():
        for path, record in objects.every(kind).items():
            meta: ObjectMeta | None = getattr(record, "metadata", None)
            if meta is not None:
                found[name, path] = meta, set()
    for pod in objects.every(Pod).values():
        for key in (("", group(pod)), *((name, named(pod)) for name, (_, named) in others.items())):
            if key in found and holds(pod):
                found[key][1].add(pod.spec.node_name)
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
