"""How many files one gang's way from manifest to bind enters, and how often it goes from one file to another.

    python tools/way_of_a_gang.py [--list]

Reads manifests of four nodes in two racks and a gang of four, and runs controllers, one cycle of the default profile
and its effects on the embedded cluster; imports are done before. Every call of a Python function is followed with
`sys.setprofile`: a file is entered when a function defined in it is called, and a switch is a call from a function of
one file to one of another. The core is actions, framework and plugins; `--list` names its files with their calls.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType

import tierwise
from tierwise.cli.inputs import load
from tierwise.config.profile import DEFAULT
from tierwise.sim.rounds import schedule

PACKAGE = str(Path(tierwise.__file__).parent)
CORE = ("actions", "framework", "plugins")
NODE = """
apiVersion: v1
kind: Node
metadata: {{name: n{i}, labels: {{rack: r{rack}}}}}
status:
  allocatable: {{cpu: "8", memory: 32Gi, pods: "20"}}
  conditions: [{{type: Ready, status: "True"}}]
---"""
RACK = """
apiVersion: topology.volcano.sh/v1alpha1
kind: HyperNode
metadata: {{name: r{i}}}
spec: {{tier: 1, members: [{{type: Node, selector: {{regexMatch: {{pattern: "^n[{pattern}]$"}}}}}}]}}
---"""
GANG = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: default}
spec: {minMember: 4, networkTopology: {mode: hard, highestTierAllowed: 1}}
status: {phase: Inqueue}
---"""
POD = """
apiVersion: v1
kind: Pod
metadata: {{name: g-{i}, namespace: default, annotations: {{scheduling.k8s.io/group-name: g}}}}
spec:
  schedulerName: volcano
  containers: [{{name: main, image: busybox, resources: {{requests: {{cpu: "2"}}}}}}]
---"""


def manifests() -> str:
    """Two racks of two nodes, and a gang of four that must stay in one."""
    nodes = "".join(NODE.format(i=i, rack=i // 2) for i in range(4))
    racks = "".join(RACK.format(i=i, pattern=f"{2 * i}{2 * i + 1}") for i in range(2))
    return nodes + racks + GANG + "".join(POD.format(i=i) for i in range(4))


def followed(file: str) -> tuple[Counter[str], int]:
    """Calls by file, and switches between files, from reading the manifests to the end of the first cycle."""
    calls: Counter[str] = Counter()
    switches = 0

    def seen(frame: FrameType, event: str, _: object) -> None:
        nonlocal switches
        name = frame.f_code.co_filename
        if event != "call" or not name.startswith(PACKAGE):
            return
        calls[name] += 1
        caller = frame.f_back
        while caller is not None and not caller.f_code.co_filename.startswith(PACKAGE):
            caller = caller.f_back
        switches += caller is not None and caller.f_code.co_filename != name

    def once() -> None:
        objects = load((file,))
        schedule(objects, DEFAULT, now=0.0, cycles=1)

    once()  # what is imported when it is first needed is imported now
    sys.setprofile(seen)
    try:
        once()
    finally:
        sys.setprofile(None)
    return calls, switches


def main() -> None:
    """Print the figures."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "gang.yaml"
        file.write_text(manifests())
        calls, switches = followed(str(file))
    files = {str(Path(name).relative_to(PACKAGE)): number for name, number in calls.items()}
    core = {name: number for name, number in files.items() if name.startswith(CORE)}
    print(f"{len(files)} files, {switches} switches, {sum(files.values())} calls; {len(core)} files in the core")
    if "--list" in sys.argv:
        for name, number in sorted(core.items()):
            print(f"  {number:6} {name}")


if __name__ == "__main__":
    main()
