"""Rules between pods: affinity, anti-affinity in both directions, topology spread."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.worlds import (
    PodsDraft,
    World,
    node,
    pods,
    taints,
    world,
)

from tierwise.api.core import (
    Affinity,
    LabelSelector,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Toleration,
    TopologySpreadConstraint,
)
from tierwise.model.running import running_table
from tierwise.plugins.kubernetes.predicates import Predicates

ZONES = {"n0": "a", "n1": "a", "n2": "b", "n3": ""}
WEB = LabelSelector(match_labels={"app": "web"})
LONELY, CONFLICT = "PodAffinityUnsatisfied", "PodAntiAffinityConflict"
UNWELCOME, UNEVEN = "ExistingPodAntiAffinity", "TopologySpreadViolated"


def zoned(*groups: PodsDraft) -> World:
    """Two nodes in zone a, one in zone b, one in none."""
    return world([node(name, labels={"zone": z} if z else {}) for name, z in ZONES.items()], groups)


def near(selector: LabelSelector | None = WEB, key: str = "zone", **rest: object) -> Affinity:
    """Required affinity with one term."""
    term = PodAffinityTerm(label_selector=selector, topology_key=key, **rest)  # type: ignore[arg-type]
    return Affinity(pod_affinity=PodAffinity(required=(term,)))


def away(selector: LabelSelector | None = WEB, key: str = "zone", **rest: object) -> Affinity:
    """Required anti-affinity with one term."""
    term = PodAffinityTerm(label_selector=selector, topology_key=key, **rest)  # type: ignore[arg-type]
    return Affinity(pod_anti_affinity=PodAffinity(required=(term,)))


def even(max_skew: int = 1, key: str = "zone", **rest: object) -> tuple[TopologySpreadConstraint, ...]:
    """A hard spread constraint over the web pods."""
    fields = {"max_skew": max_skew, "topology_key": key, "label_selector": WEB, "when_unsatisfiable": "DoNotSchedule"}
    return (TopologySpreadConstraint(**(fields | rest)),)  # type: ignore[arg-type]


def web(on: str = "", **rest: object) -> PodsDraft:
    """Pods with the label app=web."""
    return pods(on=on, labels={"app": "web"}, **rest)  # type: ignore[arg-type]


def why(w: World, number: int, plugin: Predicates | None = None) -> list[str]:
    """The codes for n0 to n3."""
    plugin = plugin or Predicates({}, w.view)
    return list(w.codes(plugin.why_not_now(w.shape(number), w.everywhere)).values())


def test_affinity_needs_a_matching_pod_in_the_same_place() -> None:
    """Only nodes of a zone where such a pod stands will do; a node without the label never does."""
    assert ["", "", LONELY, LONELY] == why(zoned(web("n1"), pods(affinity=near())), 1)


def test_affinity_without_any_matching_pod_is_refused_everywhere() -> None:
    """A pod that does not match its own term cannot be the first."""
    assert [LONELY] * 4 == why(zoned(pods(affinity=near())), 0)


def test_a_pod_that_matches_its_own_affinity_may_be_the_first() -> None:
    """The first of a group goes anywhere with the label; the next must follow it."""
    w = zoned(web(affinity=near()))
    plugin = Predicates({}, w.view)

    assert ["", "", "", LONELY] == why(w, 0, plugin)
    w.place(0, "n2")
    assert [LONELY, LONELY, "", LONELY] == why(w, 0, plugin)


def test_anti_affinity_of_several_kinds_of_pods_adds_up() -> None:
    """Whoever excludes a pod keeps it off, however many others do so elsewhere by the same label."""
    some = LabelSelector(match_expressions=(Requirement(key="app", operator="Exists"),))
    w = zoned(pods(on="n0", affinity=away()), pods(on="n2", affinity=away(some)), web())

    assert [UNWELCOME, UNWELCOME, UNWELCOME, ""] == why(w, 2)


def test_affinity_terms_must_be_met_by_the_same_pod() -> None:
    """As in Kubernetes, a pod counts only if it matches all terms at once."""
    db = PodAffinityTerm(label_selector=LabelSelector(match_labels={"tier": "db"}), topology_key="zone")
    both = Affinity(pod_affinity=PodAffinity(required=(*required(near()), db)))
    apart = zoned(web("n0"), pods(on="n0", labels={"tier": "db"}), pods(affinity=both))
    together = zoned(pods(on="n2", labels={"app": "web", "tier": "db"}), pods(affinity=both))

    assert [LONELY] * 4 == why(apart, 2)
    assert [LONELY, LONELY, "", LONELY] == why(together, 1)


def required(affinity: Affinity) -> tuple[PodAffinityTerm, ...]:
    """The terms of a required affinity."""
    assert affinity.pod_affinity is not None
    return affinity.pod_affinity.required


def test_anti_affinity_keeps_away_from_matching_pods() -> None:
    """The whole zone of such a pod is barred; a node without the label is not."""
    assert [CONFLICT, CONFLICT, "", ""] == why(zoned(web("n1"), pods(affinity=away())), 1)


def test_standing_pods_keep_others_away() -> None:
    """The anti-affinity of a pod that stands holds against pods that have no rule themselves."""
    w = zoned(pods(on="n2", affinity=away()), web())

    assert Predicates({}, w.view).concerns(w.shape(1))
    assert ["", "", UNWELCOME, ""] == why(w, 1)


def test_placed_pods_count_and_rewind_forgets_them() -> None:
    """Placements of this cycle bar nodes in both directions, and undoing them opens the nodes again."""
    w = zoned(web(affinity=away()), web())
    plugin = Predicates({}, w.view)
    mark = w.ledger.mark()
    w.place(0, "n0")

    assert [CONFLICT, CONFLICT, "", ""] == why(w, 0, plugin)
    assert [UNWELCOME, UNWELCOME, "", ""] == why(w, 1, plugin)
    w.ledger.rewind(mark)
    assert [""] * 4 == why(w, 0, plugin) == why(w, 1, plugin)


def test_evicted_pods_no_longer_count() -> None:
    """Rules between pods look past a victim, and see it again after a rewind."""
    w = zoned(web("n0 n1 n2", pending=1), pods(affinity=away()))
    plugin = Predicates({}, w.view)
    running = running_table(w.snapshot)
    mark = w.ledger.mark()
    w.ledger.evict(running, np.flatnonzero(running.row == w.row("n2")))

    assert [CONFLICT, CONFLICT, "", ""] == why(w, 1, plugin)
    w.ledger.rewind(mark)
    assert [CONFLICT, CONFLICT, CONFLICT, ""] == why(w, 1, plugin)


def test_shapes_that_no_rule_touches_are_not_concerned() -> None:
    """Anti-affinity against others leaves a shape to the fast kernels."""
    w = zoned(pods(on="n2", affinity=away()), pods(labels={"app": "batch"}))
    plugin = Predicates({}, w.view)

    assert not plugin.concerns(w.shape(1))
    assert [""] * 4 == why(w, 1, plugin)


def test_hostname_falls_back_to_node_names() -> None:
    """Where no node has the hostname label, every node is a place of its own."""
    w = zoned(web("n1"), pods(affinity=away(key="kubernetes.io/hostname")))

    assert ["", CONFLICT, "", ""] == why(w, 1)


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        ({}, False),
        ({"namespaces": ("other",)}, True),
        ({"namespaces": ("third",)}, False),
        ({"namespace_selector": LabelSelector()}, True),
        ({"namespace_selector": LabelSelector(match_labels={"kubernetes.io/metadata.name": "other"})}, True),
        ({"namespace_selector": LabelSelector(match_labels={"team": "x"})}, False),
        (
            {
                "namespace_selector": LabelSelector(
                    match_expressions=(Requirement(key="team", operator="DoesNotExist"),)
                )
            },
            True,
        ),
        ({"namespaces": ("other",), "namespace_selector": LabelSelector(match_labels={"team": "x"})}, True),
    ],
)
def test_terms_mean_pods_of_their_namespaces(rest: dict[str, object], expected: bool) -> None:
    """The pod's own namespace unless namespaces are named or selected; this one has the label of its name alone."""
    w = zoned(web("n2", namespace="other"), pods(affinity=away(**rest)))  # type: ignore[arg-type]

    assert expected is (why(w, 1)[2] == CONFLICT)


def test_a_term_without_a_selector_means_no_pod() -> None:
    """A missing selector matches nothing, an empty one everything."""
    w = zoned(web("n2"), pods(affinity=away(None)), pods(affinity=away(LabelSelector())))

    assert [""] * 4 == why(w, 1)
    assert ["", "", CONFLICT, ""] == why(w, 2)


def test_label_keys_tie_terms_to_the_pods_own_values() -> None:
    """`matchLabelKeys` narrows a term to the pod's own value, `mismatchLabelKeys` to the others."""
    own, other = {"app": "web", "rev": "1"}, {"app": "web", "rev": "2"}
    match = away(match_label_keys=("rev", "absent"))
    mismatch = away(mismatch_label_keys=("rev",))
    standing = (pods(on="n0", labels=own), pods(on="n2", labels=other))
    w = zoned(*standing, pods(labels=own, affinity=match), pods(labels=own, affinity=mismatch))

    assert [CONFLICT, CONFLICT, "", ""] == why(w, 2)[:4]
    assert ["", "", CONFLICT, ""] == why(w, 3)


def test_spread_limits_the_skew() -> None:
    """A zone may be ahead of the emptiest by the skew; nodes without the label are refused."""
    w = zoned(web("n0"), web(spread=even()))
    plugin = Predicates({}, w.view)

    assert [UNEVEN, UNEVEN, "", UNEVEN] == why(w, 1, plugin)
    w.place(1, "n2")
    assert ["", "", "", UNEVEN] == why(w, 1, plugin)


def test_spread_counts_a_pod_itself_only_where_it_matches() -> None:
    """A pod that its own constraint does not count may go where the skew is used up."""
    assert ["", "", "", UNEVEN] == why(zoned(web("n0"), pods(spread=even())), 1)


def test_too_few_domains_count_as_an_empty_one() -> None:
    """Below `minDomains` the emptiest domain is taken as empty."""
    standing = web("n0 n2")

    assert ["", "", "", UNEVEN] == why(zoned(standing, web(spread=even(min_domains=2))), 1)
    assert [UNEVEN] * 4 == why(zoned(standing, web(spread=even(min_domains=3))), 1)


def test_spread_counts_only_nodes_that_the_pod_may_use() -> None:
    """By default the emptiest domain is sought among the nodes of the selector, taints aside."""
    mine = {"zone": "a"}
    ignored = even(node_affinity_policy="Ignore")
    w = zoned(web("n0"), web(spread=even(), node_selector=mine), web(spread=ignored, node_selector=mine))

    assert ["", "", "", ""] == why(w, 1)  # it is left one zone, so the rule is static
    assert [UNEVEN, UNEVEN, "", UNEVEN] == why(w, 2)


def test_spread_may_leave_out_tainted_nodes() -> None:
    """With `nodeTaintsPolicy: Honor` a domain behind a taint is no domain, unless the pod tolerates it."""
    nodes = [node("n0", labels={"zone": "a"}), node("n1", labels={"zone": "b"}, taints=taints("gpu:NoSchedule"))]
    honest = even(node_taints_policy="Honor")
    tolerant = (Toleration(operator="Exists"),)
    w = world(nodes, [web("n0"), web(spread=even()), web(spread=honest), web(spread=honest, tolerations=tolerant)])

    assert [[UNEVEN, ""], ["", ""], [UNEVEN, ""]] == [why(w, number) for number in (1, 2, 3)]


def test_spread_leaves_out_pods_on_their_way_out_but_anti_affinity_does_not() -> None:
    """A terminating pod no longer counts towards the skew, yet still stands on its node."""
    w = zoned(web("n2", leaving="n0"), web(spread=even()), pods(affinity=away()))

    assert ["", "", UNEVEN, UNEVEN] == why(w, 1)
    assert [CONFLICT, CONFLICT, CONFLICT, ""] == why(w, 2)


def test_soft_constraints_are_no_filter() -> None:
    """`ScheduleAnyway` refuses nothing."""
    w = zoned(web("n0"), web(spread=even(when_unsatisfiable="ScheduleAnyway")))

    assert not Predicates({}, w.view).concerns(w.shape(1))


def test_switched_off_rules_stay_silent() -> None:
    """Volcano's switches turn off pod affinity and topology spread one by one."""
    database = {"app": "db"}
    apart = away(LabelSelector(match_labels=database))
    w = zoned(pods(on="n0", labels=database), web(spread=even()), pods(affinity=apart))
    no_affinity = Predicates({"predicate.PodAffinityEnable": False}, w.view)
    no_spread = Predicates({"predicate.PodTopologySpreadEnable": False}, w.view)

    assert [True, False] == [no_affinity.concerns(w.shape(number)) for number in (1, 2)]
    assert [False, True] == [no_spread.concerns(w.shape(number)) for number in (1, 2)]


def test_rules_that_no_pod_can_change_are_static() -> None:
    """What selects no pod asks for its label at most, and a label with one value cannot be used unevenly."""
    nobody, here = LabelSelector(match_labels={"app": "nobody"}), "rack"
    nodes = [node("n0", labels={"rack": "r"}), node("n1", labels={"rack": "r"}), node("n2")]
    rules = [
        pods(affinity=away(nobody)),
        web(spread=even(key=here)),
        web(affinity=near(key=here)),
        web(spread=even(key=here, min_domains=2)),
        pods(affinity=near(key=here)),
    ]
    w = world(nodes, [web("n0"), *rules])
    plugin = Predicates({}, w.view)

    assert [False, False, False, True, True] == [plugin.concerns(w.shape(number)) for number in range(1, 6)]
    assert ["", "", ""] == list(w.codes(plugin.why_not(w.shape(1))).values())
    assert ["", "", UNEVEN] == list(w.codes(plugin.why_not(w.shape(2))).values())
    assert ["", "", LONELY] == list(w.codes(plugin.why_not(w.shape(3))).values())


def test_a_span_is_answered_like_the_whole() -> None:
    """Rows of a span get the same answer as within the whole cluster."""
    w = zoned(web("n1"), pods(affinity=away()))
    plugin = Predicates({}, w.view)
    whole = plugin.why_not_now(w.shape(1), w.everywhere)

    assert whole[1:3].tolist() == plugin.why_not_now(w.shape(1), slice(1, 3)).tolist()


def test_affinity_ties_to_a_place_until_somebody_stands_there() -> None:
    """Nodes of one zone are one place, a node in none is no place; whom the affinity looks for decides."""
    free = zoned(web(affinity=near()), pods(labels={"app": "db"}, affinity=near()))
    plugin = Predicates({}, free.view)

    for number in (0, 1):
        (tie,) = plugin.ties(free.shape(number))
        assert frozenset({free.shape(0).number}) == tie.founders
        a, same, b, none = tie.places.tolist()
        assert (a == same, a == b, none) == (True, False, -1)

    settled = zoned(web(affinity=near()), web(on="n0"))
    assert () == Predicates({}, settled.view).ties(settled.shape(0))
    assert () == Predicates({}, zoned(web()).view).ties(zoned(web()).shape(0))


HOSTS = "kubernetes.io/hostname"


@pytest.mark.parametrize(
    ("rules", "free"),
    [
        ({"affinity": away(key=HOSTS)}, True),
        ({"affinity": away()}, True),
        ({"affinity": near()}, True),
        ({"spread": even()}, True),
        ({"spread": even(), "affinity": away(key=HOSTS)}, True),
        ({"spread": even(), "affinity": away(LabelSelector(match_labels={"app": "db"}))}, True),
        ({"spread": (*even(), *even(key=HOSTS))}, False),
        ({"spread": even(), "affinity": away()}, False),
        ({"spread": even(), "affinity": near()}, False),
    ],
)
def test_which_rules_make_the_order_of_tasks_matter(rules: dict[str, object], free: bool) -> None:
    """One rule among the pods of a shape leaves room for as many of them in any order, two of them need not."""
    w = zoned(web("", **rules))

    assert free is Predicates({}, w.view).order_free(w.shape(0))
