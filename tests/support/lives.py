"""Clusters that live, for tests: worlds in one line each, run to their end without anybody waiting.

end = lived(machines("n0", "n1"), gang("train", 2, run_for="60s"))
assert {"Succeeded": 2} == phases(end)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.support.manifests import NOW, container, node, objects, pod_group
from tests.support.sight import saw

from tierwise.api.codec import Raw
from tierwise.api.core import Pod
from tierwise.config.profile import DEFAULT
from tierwise.sim.cluster.agenda import Incident
from tierwise.sim.cluster.simulation import Moment, Simulation

__all__ = ["gang", "life", "lived", "machines", "phases", "reasons", "workers"]


def machines(*names: str, allocatable: str = "cpu=1 pods=110") -> list[Raw]:
    """Nodes that hold a pod each."""
    return [node(name, allocatable) for name in names]


def workers(job: str, number: int, policy: str = "Never", **marks: str) -> list[Raw]:
    """Pods of a group that ask for a cpu each; further words are annotations of the simulation."""
    annotations = {f"tierwise.io/{key.replace('_', '-')}": value for key, value in marks.items()}
    annotations["scheduling.k8s.io/group-name"] = job
    spec: Raw = {"containers": [container("cpu=1")], "restartPolicy": policy, "schedulerName": "volcano"}
    return [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{job}-{index}", "namespace": "default", "annotations": annotations},
            "spec": spec,
        }
        for index in range(number)
    ]


def gang(job: str, number: int, policy: str = "Never", **marks: str) -> list[Raw]:
    """A group of pods that start together."""
    return [pod_group(job, phase="Pending", minMember=number), *workers(job, number, policy, **marks)]


def life(*raws: Sequence[Raw], incidents: Sequence[Incident] = (), log: bool = True) -> Simulation:
    """A cluster of these objects, about to live."""
    world = objects(*(raw for part in raws for raw in part))
    return Simulation(world, DEFAULT, start=NOW, incidents=incidents, log=log)


def lived(
    *raws: Sequence[Raw], incidents: Sequence[Incident] = (), until: float = 86_400, log: bool = True
) -> tuple[Simulation, list[Moment]]:
    """A cluster at its end, and every moment of its life."""
    cluster = life(*raws, incidents=incidents, log=log)
    moments = list(cluster.run(until))
    saw(moments=len(moments), pods=len(moments[-1].objects.every(Pod)) if moments else 0)
    return cluster, moments


def phases(moment: Moment) -> dict[str, int]:
    """How many pods are in each phase."""
    return dict(Counter(pod.status.phase for pod in moment.objects.every(Pod).values()))


def reasons(cluster: Simulation, name: str) -> list[tuple[float, str]]:
    """When what happened to the object of a name."""
    return [(h.at, h.reason) for h in cluster.history.events if h.about.name == name]
