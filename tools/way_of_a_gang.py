"""How many files a gang's way from manifest to bind enters, and how often it goes from one file to another.

    python tools/way_of_a_gang.py [--list]

Reads manifests of four nodes in two racks and a gang of four, or another kind of gang or a plain pod on the same nodes,
and runs controllers, one cycle of the default profile and its effects on the embedded cluster; imports are done before.
Every call of a Python function is followed with `sys.setprofile`: a file is entered when a function defined in it is
called, and a switch is a call from a function of one file to one of another. The core is actions, framework and
plugins; `--list` names its files with their calls. Depth counts the functions, from the one that serves the queues in
`allocate` to the one that changes the ledger, that wait for each other while the gang's minimum is placed.
`tests/unit/test_way_of_a_gang.py` holds each kind to its figures.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

import yaml

import tierwise
from tierwise.cli.inputs import load
from tierwise.config.profile import DEFAULT
from tierwise.sim.cluster.rounds import schedule

PACKAGE = str(Path(tierwise.__file__).parent)
CORE = ("actions", "framework", "plugins")
_FIRST = ("allocate", str(Path(PACKAGE, "actions", "allocate.py")))
_LAST = ("place", str(Path(PACKAGE, "framework", "ledger.py")))
_INLINED = {"<listcomp>", "<setcomp>", "<dictcomp>"}  # frames of their own in Python 3.11 alone

Manifest = dict[str, Any]


def _node(number: int) -> Manifest:
    labels = {"rack": f"r{number // 2}", "feed": f"f{number % 2}"}
    status = {
        "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "20"},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"n{number}", "labels": labels}, "status": status}


def _domain(name: str, members: str, **labels: str) -> Manifest:
    selector = {"regexMatch": {"pattern": f"^n[{members}]$"}}
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name, **({"labels": labels} if labels else {})},
        "spec": {"tier": 1, "members": [{"type": "Node", "selector": selector}]},
    }


def _group(version: str, spec: Manifest, annotations: dict[str, str] | None = None) -> Manifest:
    meta: Manifest = {"name": "g", "namespace": "default"} | ({"annotations": annotations} if annotations else {})
    found: Manifest = {"apiVersion": version, "kind": "PodGroup", "metadata": meta, "spec": spec}
    return found | ({"status": {"phase": "Inqueue"}} if "volcano" in version else {})


def _pod(number: int, **marks: dict[str, str]) -> Manifest:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "2"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"g-{number}", "namespace": "default", **marks},
        "spec": {"schedulerName": "volcano", "containers": [container]},
    }


VOLCANO, NEAR = "scheduling.volcano.sh/v1beta1", {"mode": "hard", "highestTierAllowed": 1}
RACKS = [_domain("r0", "01"), _domain("r1", "23")]
MEMBER = {"scheduling.k8s.io/group-name": "g"}


def plain() -> list[Manifest]:
    """A pod by itself."""
    return [*RACKS, _pod(0)]


def gang() -> list[Manifest]:
    """A gang of four that must stay in one rack."""
    group = _group(VOLCANO, {"minMember": 4, "networkTopology": NEAR})
    return [*RACKS, group, *(_pod(i, annotations=MEMBER) for i in range(4))]


def nested() -> list[Manifest]:
    """A group of two groups in one rack, in KAI's words, beside a group of one pod."""
    near = {"topology": "net", "requiredTopologyLevel": "rack"}
    subs: list[Manifest] = [
        {"name": "outer", "minMember": 0, "minSubGroup": 2, "topologyConstraint": near},
        {"name": "a", "parent": "outer", "minMember": 1},
        {"name": "b", "parent": "outer", "minMember": 2},
        {"name": "c", "minMember": 1},
    ]
    group = _group("scheduling.run.ai/v2alpha2", {"minMember": 1, "minSubGroup": 2, "subGroups": subs})
    levels = {"levels": [{"nodeLabel": "rack"}]}
    tree = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": "net"}, "spec": levels}
    marks = ({"kai.scheduler/subgroup-name": name} for name in "abbc")
    return [tree, group, *(_pod(i, labels=m, annotations={"pod-group-name": "g"}) for i, m in enumerate(marks))]


def gathered() -> list[Manifest]:
    """A gang of four in one block and in pairs on nodes, in Koordinator's words."""
    listed: list[Manifest] = [
        {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "BlockLayer"},
        {"topologyLayer": "BlockLayer", "parentTopologyLayer": "", "labelKey": ["rack"]},
    ]
    layers = {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": listed},
    }
    rules = [
        {"layer": "BlockLayer", "strategy": "MustGather"},
        {"layer": "NodeTopologyLayer", "strategy": "PreferGather", "podCountMultiple": 2},
    ]
    asked = {"gang.scheduling.koordinator.sh/network-topology-spec": json.dumps({"gatherStrategy": rules})}
    group = _group("scheduling.sigs.k8s.io/v1alpha1", {"minMember": 4}, asked)
    return [layers, group, *(_pod(i, labels={"pod-group.scheduling.sigs.k8s.io": "g"}) for i in range(4))]


def two_fabrics() -> list[Manifest]:
    """A gang of four in one rack and on two power feeds."""
    feeds = [_domain(f"f{i}", members, **{"tierwise.io/fabric": "power"}) for i, members in enumerate(("02", "13"))]
    listed = json.dumps([{"fabric": "power", "tier": 1, "spread": 2}])
    group = _group(VOLCANO, {"minMember": 4, "networkTopology": NEAR}, {"tierwise.io/topology-constraints": listed})
    return [*RACKS, *feeds, group, *(_pod(i, annotations=MEMBER) for i in range(4))]


KINDS: dict[str, Callable[[], list[Manifest]]] = {
    "a plain pod": plain,
    "a gang": gang,
    "a nested gang": nested,
    "a gathered gang": gathered,
    "a gang on two fabrics": two_fabrics,
}


class Way:
    """What was entered on the way from reading the manifests to the end of the first cycle."""

    def __init__(self, file: str, pods: int) -> None:
        self.calls: Counter[str] = Counter()
        self.functions: set[tuple[str, int]] = set()
        self.switches = 0
        self.depth = 0
        self._follow(file)  # what is imported when it is first needed is imported now
        self.calls.clear()
        self.functions.clear()
        self.switches = 0
        sys.setprofile(self._seen)
        try:
            bound = self._follow(file)
        finally:
            sys.setprofile(None)
        if bound != pods:
            raise RuntimeError(f"{bound} of {pods} pods found a place: {file}")

    def _follow(self, file: str) -> int:
        return len(schedule(load((file,)), DEFAULT, now=0.0, cycles=1).bindings)

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE):
            return
        self.calls[name] += 1
        self.functions.add((name, frame.f_code.co_firstlineno))
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        self.switches += caller is not None and caller.f_code.co_filename != name
        if (frame.f_code.co_name, name) == _LAST:
            self.depth = max(self.depth, _depth(frame))

    def files(self, *folders: str) -> dict[str, int]:
        """Calls by file, of all or of some folders."""
        named = {str(Path(name).relative_to(PACKAGE)): number for name, number in self.calls.items()}
        return {name: number for name, number in named.items() if not folders or name.startswith(folders)}


def _depth(frame: FrameType) -> int:
    """How many functions wait from `allocate` to this one, both counted; 0 where `allocate` is not among them."""
    number, current = 0, frame
    while True:
        code = current.f_code
        number += code.co_filename.startswith(PACKAGE) and code.co_name not in _INLINED
        if (code.co_name, code.co_filename) == _FIRST:
            return number
        if current.f_back is None:
            return 0
        current = current.f_back


def way_of(manifests: Callable[[], list[Manifest]]) -> Way:
    """The way of a gang on four nodes."""
    raws = [*map(_node, range(4)), *manifests()]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "gang.yaml"
        file.write_text(yaml.safe_dump_all(raws))
        return Way(str(file), sum(raw["kind"] == "Pod" for raw in raws))


def main() -> None:
    """Print the figures."""
    for title, manifests in KINDS.items():
        way = way_of(manifests)
        files, core, inner = way.files(), way.files(*CORE), way.files("actions", "framework")
        print(
            f"{title}: {len(files)} files, {len(way.functions)} functions, {way.switches} switches,"
            f" {sum(files.values())} calls; {len(core)} files in the core, {len(inner)} of actions and framework;"
            f" {way.depth} deep"
        )
        if "--list" in sys.argv:
            for name, number in sorted(core.items()):
                print(f"  {number:6} {name}")


if __name__ == "__main__":
    main()
