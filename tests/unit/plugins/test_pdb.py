"""Disruption budgets count down over victims."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from tests.support.draw import gang
from tests.support.points import takes
from tests.support.queue_worlds import Hall, hall_of

from tierwise.api.codec import Raw
from tierwise.framework.extension import Purpose, VictimFilter
from tierwise.plugins.pdb import DisruptionBudgets


def budget(name: str, allowed: int, **labels: str) -> Raw:
    """A budget that covers pods with these labels."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }


def hall(*budgets: Raw, labels: Mapping[str, Mapping[str, str]]) -> Hall:
    """Four pods that run, and a gang that wants their room."""
    victims = gang("v", tasks=4, on="n0 n1 n2 n3", labels=labels)
    return hall_of("n0..3", *budgets, victims, gang("new", tasks=1))


ALL = {f"v-{i}": {"app": "a"} for i in range(4)}


@pytest.mark.parametrize("purpose", list(Purpose))
@pytest.mark.parametrize("weighs_gangs", [True, False])
def test_a_budget_allows_so_many_and_no_more(purpose: Purpose, weighs_gangs: bool) -> None:
    """In the order of the victims, for preemption and reclaim, for single tasks and gangs."""
    h = hall(budget("keep", 2, app="a"), labels=ALL)
    plugin = DisruptionBudgets({}, h.view)

    assert takes(plugin, VictimFilter)
    assert "v-3 v-0" == h.go(plugin, h.cause("new", purpose=purpose, gang=weighs_gangs), "v-3 v-0 v-1 v-2")


def test_every_covering_budget_must_allow_it() -> None:
    """A victim that one budget spares uses up nothing of another."""
    labels = {"v-0": {"app": "a", "tier": "x"}, "v-1": {"app": "a"}, "v-2": {"app": "a"}}
    h = hall(budget("apps", 1, app="a"), budget("tiers", 0, tier="x"), labels=labels)

    assert "v-1 v-3" == h.go(DisruptionBudgets({}, h.view), h.cause("new"), "v-0 v-1 v-2 v-3")


def test_pods_without_labels_are_free() -> None:
    """No budget covers them: Volcano's plugin would keep them, by a slip."""
    h = hall(budget("keep", 0, app="a"), labels={})

    assert "v-0 v-1" == h.go(DisruptionBudgets({}, h.view), h.cause("new"), "v-0 v-1")


def test_without_budgets_nobody_is_spared() -> None:
    """The plugin is silent then."""
    h = hall(labels=ALL)

    assert "v-0" == h.go(DisruptionBudgets({}, h.view), h.cause("new"), "v-0")


def test_a_budget_covers_its_own_namespace() -> None:
    """A budget elsewhere with the same selector spares nobody here, and everybody there."""
    elsewhere = budget("keep", 0, app="a")
    elsewhere["metadata"] = {"name": "keep", "namespace": "evil"}

    assert [(), (), (), ()] == [task.budgets for job in hall(elsewhere, labels=ALL).view.jobs for task in job.tasks][:4]
    own = [task.budgets for job in hall(budget("keep", 0, app="a"), labels=ALL).view.jobs for task in job.tasks]
    assert ("default/keep",) in own
