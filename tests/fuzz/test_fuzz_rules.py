"""The rules of the one fuzzer, each on steps made by hand: what they let pass, and what they name."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fuzz.rules import Step, judge

Raw = dict[str, Any]
GROUP = "scheduling.k8s.io/group-name"
BORROWS = {"tierwise.io/borrows-spares": "true"}
SPARES = {"tierwise.io/spares": "1"}
ON_LOSS = "tierwise.io/on-node-loss"
FIRM = {"volcano.sh/preemptable": "false"}


def _object(api: str, kind: str, name: str, *, labels: Raw | None = None, marks: Raw | None = None, **rest: Any) -> Raw:
    meta = {"name": name, "namespace": "default", "labels": labels or {}, "annotations": marks or {}}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}


def _node(name: str, *, ready: bool = True) -> Raw:
    status = {"allocatable": {"cpu": "8", "pods": "10"}, "conditions": [{"type": "Ready", "status": str(ready)}]}
    return _object("v1", "Node", name, spec={}, status=status)


def _group(name: str, **marks: str) -> Raw:
    return _object("scheduling.volcano.sh/v1beta1", "PodGroup", name, marks=marks, spec={})


def _pod(name: str, node: str = "", *, labels: Raw | None = None, marks: Raw | None = None, **spec: Any) -> Raw:
    gang = name.partition("-")[0]
    where = {"nodeName": node} if node else {}
    asked: Raw = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}], **where, **spec}
    return _object("v1", "Pod", name, labels={"gang": gang, **(labels or {})}, marks=marks, spec=asked, status={})


def _step(before: list[Raw], **parts: Any) -> Step:
    """A step with nothing in it but what is said, after which everything is as before."""
    nothing: dict[str, Any] = {name: {} for name in ("bound", "nominated", "gained", "pending", "awaited", "reserved")}
    nothing |= {"evicted": (), "plugins": frozenset(), "noticed": frozenset(), "after": tuple(before), "now": 0.0}
    return Step(before=tuple(before), **{**nothing, **parts})


MARKED = {
    "group": ([_group("lent", **FIRM)], {}, {GROUP: "lent"}),
    "pod": ([], {}, FIRM),
    "label": ([], FIRM, {}),
    "quota": ([], {"quota.scheduling.koordinator.sh/preemptible": "false"}, {}),
}
"""Ways to say that a pod stays: objects, labels of the pod, and its annotations."""


@pytest.mark.parametrize("mark", MARKED)
@pytest.mark.parametrize(
    ("said", "by", "action", "allowed"),
    [
        ({}, "", "repair", False),
        ({ON_LOSS: "replace"}, "", "repair", False),
        ({ON_LOSS: "restart-all"}, "", "repair", True),
        ({ON_LOSS: "restart-subgroup"}, "", "repair", True),
        ({ON_LOSS: "restart-all"}, "default/owner", "repair", False),
        ({ON_LOSS: "restart-all"}, "default/owner", "preempt", False),
        (BORROWS, "default/owner", "repair", True),
        (BORROWS, "default/other", "repair", False),
        (BORROWS, "", "repair", False),
        (BORROWS, "default/owner", "reclaim", False),
        ({"tierwise.io/borrows-spares": "false"}, "default/owner", "repair", False),
        (BORROWS, "", "giveback", False),
    ],
)
def test_who_is_marked_to_stay_goes_for_what_its_job_agreed_to(
    mark: str, said: Raw, by: str, action: str, allowed: bool
) -> None:
    """Repair may restart a job that asks for it, and take back spares that it borrows; nobody may do anything else."""
    groups, labels, marks = MARKED[mark]
    others = [_group("owner", **SPARES), _group("other")]
    victim = _pod("lent-0", "n0", labels=labels, marks={**marks, **said})
    evicted = (("default/lent-0", by, action),)
    found = judge(_step([_node("n0"), *groups, *others, victim], evicted=evicted, gained={by: ()}))

    assert ([] if allowed else [f"not preemptable: default/lent-0 by {action}"]) == [
        fault for fault in found if fault.startswith("not preemptable")
    ]


def test_nobody_is_spared_on_a_lost_node() -> None:
    """A pod that is marked to stay runs no more where its node does not answer."""
    world = [_node("n0", ready=False), _group("lent", **FIRM), _pod("lent-0", "n0", marks={GROUP: "lent"})]

    assert [] == judge(_step(world, evicted=(("default/lent-0", "", "repair"),)))
