"""Resource quotas of namespaces: from the manifest to the gate."""

from __future__ import annotations

import pytest
from tests.support.draw import gang
from tests.support.drawn_gang import amounts, pod
from tests.support.points import takes
from tests.support.queue_worlds import Hall, code, hall_of

from tierwise.api.codec import Raw
from tierwise.framework.extension import EnqueueGate
from tierwise.plugins.resourcequota import ResourceQuotas


def quota(name: str, hard: str, used: str | None = None, namespace: str = "default") -> Raw:
    """A quota; without `used` nobody has counted yet."""
    status = {} if used is None else {"status": {"hard": amounts(hard), "used": amounts(used)}}
    metadata = {"name": name, "namespace": namespace}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": amounts(hard)},
        **status,
    }


def hall(*quotas: Raw) -> Hall:
    """One pod runs; jobs wait that need two cpus, three cpus, a Gi, and nothing in particular."""
    needs = {"two": "cpu=2", "three": "cpu=3", "gi": "mem=1", "any": ""}
    gangs = [gang(name, tasks=1, least=least) for name, least in needs.items()]
    return hall_of("n0", *quotas, gang("runs", tasks=1, on="n0"), *gangs, node="cpu=10 mem=10")


@pytest.mark.parametrize(
    ("quotas", "expected"),
    [
        ((), ["", "", "", ""]),
        ((quota("q", "cpu=4", "cpu=2"),), ["", "ResourceQuotaExceeded", "", ""]),
        ((quota("q", "requests.cpu=4", "requests.cpu=2"),), ["", "ResourceQuotaExceeded", "", ""]),
        ((quota("q", "cpu=3"),), ["", "ResourceQuotaExceeded", "", ""]),  # the pod that runs is counted
        ((quota("q", "limits.cpu=1 count/jobs=1", ""),), ["", "", "", ""]),
        ((quota("q", "cpu=9", "cpu=0"), quota("r", "mem=1", "mem=1")), ["", "", "ResourceQuotaExceeded", ""]),
        ((quota("q", "cpu=9", "cpu=0"), quota("r", "cpu=1", "cpu=0")), ["ResourceQuotaExceeded"] * 2 + ["", ""]),
        ((quota("q", "cpu=1", "cpu=0"), quota("r", "cpu=9", "cpu=0")), ["ResourceQuotaExceeded"] * 2 + ["", ""]),
        ((quota("q", "cpu=1", "cpu=1", namespace="elsewhere"),), ["", "", "", ""]),
    ],
)
def test_every_quota_of_the_namespace_must_leave_enough(quotas: tuple[Raw, ...], expected: list[str]) -> None:
    """Of the resources that both the quota and the job name."""
    h = hall(*quotas)

    assert expected == [
        code(ResourceQuotas({}, h.view).may_enqueue(h.job(name))) for name in ("two", "three", "gi", "any")
    ]


def test_jobs_let_in_count_for_the_next() -> None:
    """Four left: two of them go, three more do not; asking again costs nothing."""
    h = hall(quota("q", "cpu=5", "cpu=1"))
    plugin = ResourceQuotas({}, h.view)

    assert takes(plugin, EnqueueGate)
    assert "" == code(plugin.may_enqueue(h.job("two")))
    assert "" == code(plugin.may_enqueue(h.job("two")))
    assert "ResourceQuotaExceeded" == code(plugin.may_enqueue(h.job("three")))


@pytest.mark.parametrize("hard", ["pods=2", "count/pods=2"])
def test_pods_are_counted_under_both_names(hard: str) -> None:
    """One pod runs and two more are too many."""
    h = hall_of("n0", quota("q", hard), gang("runs", tasks=1, on="n0"), gang("two", tasks=2, least="pods=2"))

    assert "ResourceQuotaExceeded" == code(ResourceQuotas({}, h.view).may_enqueue(h.job("two")))


def test_what_is_in_force_counts_before_what_is_asked_for() -> None:
    """The status says what the API server enforces; a spec that was raised a moment ago is not there yet."""
    raised = quota("q", "cpu=1", "cpu=0")
    raised["spec"] = {"hard": amounts("cpu=9")}
    h = hall(raised)

    assert "ResourceQuotaExceeded" == code(ResourceQuotas({}, h.view).may_enqueue(h.job("two")))


def test_only_pods_of_the_namespace_that_hold_something_are_counted() -> None:
    """Where nobody has counted yet: not those of other namespaces, and not those that have ended."""
    elsewhere = pod("there", "n0", "cpu=3", {"namespace": "elsewhere"})
    ended = pod("ended", "n0", "cpu=3")
    ended["status"] = {"phase": "Succeeded"}
    h = hall(quota("q", "cpu=3"), elsewhere, ended)

    assert "" == code(ResourceQuotas({}, h.view).may_enqueue(h.job("two")))
