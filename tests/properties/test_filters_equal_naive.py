"""The vectorised filters say, node by node and reason by reason, what an obvious implementation says.

The obvious implementation is in `naive_filters`.
"""

from __future__ import annotations

from typing import TypeVar

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.properties.naive_filters import CORDON, HOSTNAME, Standing, moving_code, static_code
from tests.support.worlds import NodeDraft, PodsDraft, taints, world

from tierwise.api.core import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    Requirement,
    Toleration,
    TopologySpreadConstraint,
)
from tierwise.plugins.kubernetes.predicates import Predicates

T = TypeVar("T")
NOTHING: st.SearchStrategy[PodAffinity | None] = st.none()
NO_SPREAD: st.SearchStrategy[tuple[TopologySpreadConstraint, ...]] = st.just(())
AMOUNTS = {"cpu": 100, "pods": 100}
TAINTS = taints("gpu=true:NoSchedule gpu=false:NoExecute busy:NoSchedule soft:PreferNoSchedule")


# -- what clusters and pods look like

values = st.sampled_from(("a", "b", "1", "5"))
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like"))
requirements = st.builds(
    Requirement,
    key=st.sampled_from(("zone", "size", "rack")),
    operator=operators,
    values=st.lists(values, max_size=2).map(tuple),
)
fields = st.builds(
    Requirement,
    key=st.sampled_from(("metadata.name", "metadata.name", "metadata.uid")),
    operator=operators,
    values=st.lists(st.sampled_from(("n0", "n1", "n9")), max_size=2).map(tuple),
)
node_terms = st.builds(
    NodeSelectorTerm,
    match_expressions=st.lists(requirements, max_size=2).map(tuple),
    match_fields=st.lists(fields, max_size=1).map(tuple),
)
node_affinities = st.one_of(
    st.none(), st.builds(NodeSelector, node_selector_terms=st.lists(node_terms, max_size=2).map(tuple))
)
tolerations = st.lists(
    st.builds(
        Toleration,
        key=st.sampled_from(("", "gpu", "busy", CORDON.key)),
        operator=st.sampled_from(("", "Equal", "Exists", "Gt")),
        value=st.sampled_from(("", "true", "false")),
        effect=st.sampled_from(("", "NoSchedule", "NoExecute")),
    ),
    max_size=3,
).map(tuple)


def seldom(rare: st.SearchStrategy[T], common: T) -> st.SearchStrategy[T]:
    """The common value three times out of four: rules that never meet prove nothing."""
    return st.integers(0, 3).flatmap(lambda n: st.just(common) if n else rare)


apps = st.sampled_from(("x", "y"))
label_selectors = seldom(
    st.one_of(
        st.none(),
        st.just(LabelSelector()),
        st.builds(
            lambda o, v: LabelSelector(match_expressions=(Requirement(key="app", operator=o, values=v),)),
            operators,
            st.lists(apps, max_size=2).map(tuple),
        ),
    ),
    LabelSelector(match_labels={"app": "x"}),
)
namespace_selectors = st.sampled_from(
    (
        None,
        LabelSelector(),
        LabelSelector(match_labels={"kubernetes.io/metadata.name": "other"}),
        LabelSelector(match_labels={"team": "blue"}),
    )
)
topology_keys = st.sampled_from(("zone", "rack", HOSTNAME))
pod_terms = st.builds(
    PodAffinityTerm,
    label_selector=label_selectors,
    namespaces=seldom(st.sampled_from((("other",), ("default", "other"))), ()),
    namespace_selector=seldom(namespace_selectors, None),
    topology_key=topology_keys,
    match_label_keys=seldom(st.just(("rev",)), ()),
    mismatch_label_keys=seldom(st.just(("rev",)), ()),
)
sides = st.builds(PodAffinity, required=st.lists(pod_terms, min_size=1, max_size=2).map(tuple))
constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=seldom(st.just(2), 1),
    topology_key=topology_keys,
    when_unsatisfiable=seldom(st.just("ScheduleAnyway"), "DoNotSchedule"),
    label_selector=label_selectors,
    min_domains=st.sampled_from((None, 1, 2, 3)),
    match_label_keys=seldom(st.just(("rev",)), ()),
    node_affinity_policy=st.sampled_from(("", "Honor", "Ignore")),
    node_taints_policy=st.sampled_from(("", "Honor", "Ignore")),
)
spreads = st.lists(constraints, min_size=1, max_size=2).map(tuple)


@st.composite
def node_lists(draw: st.DrawFn) -> list[NodeDraft]:
    """One to five nodes; hostname labels on all, on none, or here and there."""
    named = draw(st.sampled_from((0, 1, 2)))
    labels = {"zone": seldom(st.just("b"), "a"), "rack": st.sampled_from(("a", "b")), "size": values}
    return [
        NodeDraft(
            f"n{i}",
            AMOUNTS,
            labels=draw(st.one_of(st.fixed_dictionaries(labels), st.fixed_dictionaries({}, optional=labels)))
            | ({HOSTNAME: f"h{i}"} if named == 1 or (named == 2 and i % 2) else {}),
            taints=draw(seldom(st.lists(st.sampled_from(TAINTS), max_size=2, unique=True).map(tuple), ())),
            cordoned=draw(seldom(st.booleans(), common=False)),
            ready=draw(seldom(st.booleans(), common=True)),
        )
        for i in range(draw(st.integers(1, 5)))
    ]


def pod_drafts(
    near: st.SearchStrategy[PodAffinity | None] = NOTHING,
    away: st.SearchStrategy[PodAffinity | None] = NOTHING,
    spread: st.SearchStrategy[tuple[TopologySpreadConstraint, ...]] = NO_SPREAD,
) -> st.SearchStrategy[list[PodsDraft]]:
    """One to three groups of pods with conditions on nodes and rules between pods."""
    wanted = st.builds(NodeAffinity, required=seldom(node_affinities, None))
    group = st.builds(
        PodsDraft,
        asks=st.just({"cpu": 1, "pods": 1}),
        namespace=seldom(st.just("other"), "default"),
        labels=st.fixed_dictionaries({"app": seldom(st.just("y"), "x")}, optional={"rev": st.sampled_from(("1", "2"))}),
        node_selector=seldom(st.fixed_dictionaries({"zone": values}), {}),
        affinity=st.builds(Affinity, node_affinity=wanted, pod_affinity=near, pod_anti_affinity=away),
        tolerations=tolerations,
        spread=spread,
    )
    return st.lists(group, min_size=1, max_size=3)


# -- the properties


@given(node_lists(), pod_drafts())
def test_static_filters_equal_naive(nodes: list[NodeDraft], groups: list[PodsDraft]) -> None:
    """Selectors, affinity, taints, cordons and readiness: the same code on every node."""
    w = world(nodes, groups)
    plugin = Predicates({}, w.view)

    for number, pod in enumerate(groups):
        expected = {n.name: static_code(pod, n) for n in nodes}
        assert expected == w.codes(plugin.why_not(w.shape(number)))


@given(st.data(), node_lists(), pod_drafts(near=st.one_of(NOTHING, sides)))
def test_affinity_equals_naive(data: st.DataObject, nodes: list[NodeDraft], groups: list[PodsDraft]) -> None:
    """Required affinity between pods, the first of a group included."""
    agree_throughout(data, nodes, groups)


@given(st.data(), node_lists(), pod_drafts(away=st.one_of(NOTHING, sides)))
def test_anti_affinity_equals_naive(data: st.DataObject, nodes: list[NodeDraft], groups: list[PodsDraft]) -> None:
    """Required anti-affinity in both directions."""
    agree_throughout(data, nodes, groups)


@settings(max_examples=3 * settings().max_examples)  # the rule with the most cases
@given(st.data(), node_lists(), pod_drafts(spread=spreads))
def test_spread_equals_naive(data: st.DataObject, nodes: list[NodeDraft], groups: list[PodsDraft]) -> None:
    """Hard topology spread with all its policies."""
    agree_throughout(data, nodes, groups)


@given(st.data(), node_lists(), pod_drafts(near=seldom(sides, None), away=sides, spread=spreads))
def test_all_rules_together_equal_naive(data: st.DataObject, nodes: list[NodeDraft], groups: list[PodsDraft]) -> None:
    """The first objection is the same where several rules object."""
    agree_throughout(data, nodes, groups)


def agree_throughout(data: st.DataObject, nodes: list[NodeDraft], groups: list[PodsDraft]) -> None:
    """The same code on every node: at the start, after each placement, and after a rewind."""
    spots = st.lists(st.sampled_from(nodes), max_size=2)
    stood = [(data.draw(spots, "on"), data.draw(seldom(spots, []), "leaving")) for _ in groups]
    drafts = [
        replace(group, on=names(on), leaving=names(leaving)) for group, (on, leaving) in zip(groups, stood, strict=True)
    ]
    w = world(nodes, drafts)
    plugin = Predicates({}, w.view)
    before = [Standing(g, n) for g, (on, _) in zip(drafts, stood, strict=True) for n in on]
    before += [Standing(g, n, leaving=True) for g, (_, gone) in zip(drafts, stood, strict=True) for n in gone]

    def agree(cluster: list[Standing]) -> None:
        for number, pod in enumerate(drafts):
            shape = w.shape(number)
            now, before_all = w.codes(plugin.why_not_now(shape, w.everywhere)), w.codes(plugin.why_not(shape))
            for n in nodes:
                closed = static_code(pod, n)  # then it does not matter what else objects
                seen = now[n.name] or ("" if closed else before_all[n.name])
                expected = moving_code(pod, n, nodes, cluster)
                assert expected == seen or (closed and not now[n.name])
            assert plugin.concerns(shape) or not any(now.values())

    agree(before)
    moves = st.tuples(st.integers(0, len(drafts) - 1), st.sampled_from(nodes))
    mark = w.ledger.mark()
    cluster = list(before)
    for number, n in data.draw(st.lists(moves, max_size=3), "placements"):
        w.place(number, n.name)
        cluster.append(Standing(drafts[number], n))
        agree(cluster)
    w.ledger.rewind(mark)
    agree(before)


def names(nodes: list[NodeDraft]) -> tuple[str, ...]:
    """The nodes' names."""
    return tuple(n.name for n in nodes)
