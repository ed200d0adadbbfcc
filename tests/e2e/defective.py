"""tierwise with a defect: `python -m tests.e2e.defective VERB …` is `tierwise VERB …` that cannot take some pods.

Pods with the label `defect` are handed to it in a form that no record has, so that whichever layer looks at them first
raises: it stands for a defect that nobody knows of yet.
"""

from __future__ import annotations

from msgspec.structs import replace

from tierwise.api.core import Pod
from tierwise.cli.main import main
from tierwise.kube.cluster import KubeCluster
from tierwise.port import Objects

__all__: list[str] = []

_READ = KubeCluster.read


def _read(cluster: KubeCluster) -> Objects:
    objects = _READ(cluster)
    found = {key: record for key in objects if isinstance(record := objects.record(key), Pod)}
    bad = {key: pod for key, pod in found.items() if "defect" in pod.metadata.labels}
    if not bad:
        return objects
    puts = {key: (replace(pod, spec=replace(pod.spec, tolerations=(object(),))), None) for key, pod in bad.items()}
    return objects.updated(puts, (), objects.version)


KubeCluster.read = _read  # type: ignore[method-assign, assignment]
main()
