"""What Kubernetes refuses in its own pods and workloads is refused by `validate` and by the embedded cluster.

That the same objects are taken or refused by a real API server is seen by tests/e2e/test_validation.py.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from tests.support.drawn_workloads import KINDS, drawn
from tests.support.manifests import objects
from tests.support.playground import Playground, nodes

from tierwise.admission import incomplete, validate
from tierwise.api.errors import InputError
from tierwise.apiserver.failures import ApiFailure

_PATHS = {"Pod": "v1/pods", "ReplicationController": "v1/replicationcontrollers"}
_GOOD, _BROKEN = (dict(drawn(good=good)) for good in (True, False))


def _complaints(raw: dict[str, Any]) -> list[str]:
    try:
        found = objects(raw)
    except InputError as error:
        return [str(error)]
    return [f"{one.path}: {one.message}" for one in (*validate(found).errors, *incomplete(found))]


def test_there_are_many_of_both() -> None:
    """Of each kind, and no name stands for two of them."""
    for good, found in ((True, _GOOD), (False, _BROKEN)):
        assert len(found) == sum(1 for _ in drawn(good=good))
        assert set(KINDS) == {name.partition(":")[0] for name in found}
        assert len(found) > 500


def test_what_kubernetes_takes_is_valid() -> None:
    """Nothing is refused that a real server accepts."""
    assert {} == {name: said for name, raw in _GOOD.items() if (said := _complaints(raw))}


def test_what_kubernetes_refuses_is_named() -> None:
    """Each with the field and why."""
    assert [] == [name for name, raw in _BROKEN.items() if not _complaints(raw)]


@pytest.mark.parametrize("kind", KINDS)
def test_the_embedded_cluster_refuses_the_same(kind: str) -> None:
    """What `validate` accepts can be applied, and the rest is answered 422 with the fields."""
    group = {"Job": "batch/v1", "CronJob": "batch/v1"}.get(kind, "apps/v1")
    path = _PATHS.get(kind, f"{group}/{kind.lower()}s")
    ground = Playground(nodes("n0"))
    wrong: list[str] = []
    for good, found in ((True, _GOOD), (False, _BROKEN)):
        for name, raw in found.items():
            if raw["kind"] != kind:
                continue
            try:
                ground.create(path, copy.deepcopy(raw), dryRun="All")
                wrong += [] if good else [f"taken: {name}"]
            except ApiFailure as failure:
                wrong += [f"{failure.code} {name}: {failure}"] if good or failure.code not in (400, 422) else []

    assert [] == wrong


def test_an_object_that_was_stored_is_not_judged_again() -> None:
    """Its server may be of a later release."""
    raw = copy.deepcopy(_BROKEN["Pod: half a device"])
    raw["metadata"] |= {"uid": "u", "resourceVersion": "7"}

    assert [] == _complaints(raw)
