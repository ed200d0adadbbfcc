"""Labels of namespaces reach shapes as far as some selector looks at them, and follow changes."""

from __future__ import annotations

from tierwise.api import codec
from tierwise.model.snapshot import Snapshot
from tierwise.port import Objects
from tierwise.snapshot.builder import Reader, build


def _objects(selector: codec.Raw | None, **labels: str) -> Objects:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}, "namespaceSelector": selector}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    raws: list[codec.Raw] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "a", "labels": labels}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "a"}},
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "q"}, "spec": {"affinity": affinity}},
    ]
    return Objects.of((codec.decode(raw), raw) for raw in raws)


def _labels(snapshot: Snapshot) -> dict[str, dict[str, str]]:
    return {shape.namespace: shape.namespace_labels for shape in snapshot.shapes}


def test_only_labels_that_some_selector_looks_at_are_kept() -> None:
    """Others would tell pods apart that nobody tells apart."""
    wanted: codec.Raw = {"matchLabels": {"env": "prod"}}

    assert {"a": {"env": "test"}, "default": {}} == _labels(build(_objects(wanted, env="test", team="x"), 0.0))
    assert {"a": {}, "default": {}} == _labels(build(_objects(None, env="test"), 0.0))


def test_a_reader_follows_the_labels_of_a_namespace() -> None:
    """They change without any pod changing."""
    wanted: codec.Raw = {"matchExpressions": [{"key": "env", "operator": "Exists"}]}
    reader = Reader()

    for value in ("test", "prod"):
        objects = _objects(wanted, env=value)
        assert {"a": {"env": value}, "default": {}} == _labels(reader.read(objects, 0.0))
