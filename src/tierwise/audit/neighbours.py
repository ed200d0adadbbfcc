"""Check that no pod of tierwise's is beside one that required anti-affinity excludes, or shares a port of its node.

Pods count until they are gone: one that is terminating is still there. Labels are read as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tierwise.api.core import Namespace, Node, Pod, PodAffinityTerm
from tierwise.api.selector import matches
from tierwise.audit.pods import Finding, holds
from tierwise.port import HYPERNODE_ANNOTATION, PATH_ANNOTATION, Objects

__all__ = ["neighbours"]

_HOST = "kubernetes.io/hostname"
_NAME = "kubernetes.io/metadata.name"


def neighbours(objects: Objects) -> Iterator[Finding]:
    """Pairs of pods that must not be together, one of them ours at least."""
    pods = {path: pod for path, pod in objects.every(Pod).items() if holds(pod)}
    yield from _ports(pods)
    nodes = objects.every(Node)
    unnamed = not any(_HOST in node.metadata.labels for node in nodes.values())
    spaces = {path: space.metadata.labels for path, space in objects.every(Namespace).items()}
    places: dict[str, dict[str, list[str]]] = {}  # pods by the value of a label of their node, by label
    for path, pod in pods.items():
        for term in _excluding(pod):
            key = term.topology_key
            if key not in places:
                places[key] = {}
                for other, one in pods.items():
                    node = nodes.get(one.spec.node_name)
                    labels = node.metadata.labels if node is not None else {}
                    value = labels.get(key, one.spec.node_name if key == _HOST and unnamed else "")
                    places[key].setdefault(value, []).append(other)
            value, together = next((v, t) for v, t in places[key].items() if path in t)
            for other in together if value else ():
                if other != path and (_ours(pod) or _ours(pods[other])) and _means(pod, term, pods[other], spaces):
                    text = f"stands in {key} {value} beside {other}, which its anti-affinity excludes"
                    yield Finding("excluded-neighbour", f"Pod {path}", text)


def _excluding(pod: Pod) -> tuple[PodAffinityTerm, ...]:
    affinity = pod.spec.affinity
    side = affinity.pod_anti_affinity if affinity is not None else None
    return side.required if side is not None else ()


def _means(carrier: Pod, term: PodAffinityTerm, pod: Pod, spaces: Mapping[str, Mapping[str, str]]) -> bool:
    """Whether a term of one pod means another."""
    own, space = carrier.metadata.namespace or "default", pod.metadata.namespace or "default"
    named = space in term.namespaces
    if term.namespace_selector is not None:
        named |= matches(term.namespace_selector, {**spaces.get(space, {}), _NAME: space})
    elif not term.namespaces:
        named = space == own
    labels, mine = pod.metadata.labels, carrier.metadata.labels
    same = all(labels.get(key) == mine[key] for key in term.match_label_keys if key in mine)
    other = all(labels.get(key) != mine[key] for key in term.mismatch_label_keys if key in mine)
    return named and same and other and matches(term.label_selector, labels)


def _ports(pods: Mapping[str, Pod]) -> Iterator[Finding]:
    """Ports of nodes that two pods take."""
    taken: dict[tuple[str, str, int], list[tuple[str, str]]] = {}
    for path, pod in pods.items():
        for container in pod.spec.containers:
            for port in container.ports:
                number = port.host_port or (port.container_port if pod.spec.host_network else 0)
                if not number:
                    continue
                users = taken.setdefault((pod.spec.node_name, port.protocol or "TCP", number), [])
                here = port.host_ip or "0.0.0.0"
                for other, there in users:
                    everywhere = "0.0.0.0" in (here, there)
                    if other != path and (_ours(pod) or _ours(pods[other])) and (everywhere or here == there):
                        text = f"takes port {number} of node {pod.spec.node_name}, which {other} has"
                        yield Finding("port-taken", f"Pod {path}", text)
                users.append((path, here))


def _ours(pod: Pod) -> bool:
    marks = pod.metadata.annotations
    return pod.spec.scheduler_name == "tierwise" or HYPERNODE_ANNOTATION in marks or PATH_ANNOTATION in marks
