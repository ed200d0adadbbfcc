"""What is known of a pod at a look, without adding up its containers, is what adding them up says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.depth import examples

from tierwise.api.core import Container, PodSpec, ResourceRequirements
from tierwise.dialects.kubernetes.requests import effective_request, guesses
from tierwise.snapshot.shapes import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class

GUESSED = {"cpu": 100, "memory": 200 * 2**20}
amounts = st.fixed_dictionaries({}, optional={name: st.sampled_from(("0", "1", "2")) for name in ("cpu", "memory")})
resources = st.builds(ResourceRequirements, requests=amounts, limits=amounts | st.just({}))
containers = st.builds(
    Container, name=st.just("c"), resources=resources, restart_policy=st.sampled_from((None, "Always"))
)
specs = st.builds(
    PodSpec,
    containers=st.lists(containers, min_size=1, max_size=2).map(tuple),
    init_containers=st.lists(containers, max_size=1).map(tuple),
    resources=st.none() | resources,
)


@given(spec=specs)
@examples(200)
def test_guesses_are_those_of_adding_up(spec: PodSpec) -> None:
    """Whichever containers say how much cpu and memory they want; of a pod that asks as a whole, what nobody names."""
    everyone = [c.resources for c in (*spec.containers, *spec.init_containers)]
    whole = (
        [spec.resources] if spec.resources is not None and (spec.resources.requests or spec.resources.limits) else []
    )
    named = {name for r in (*everyone, *whole) for name in (*r.requests, *r.limits)} if whole else set()
    missing = {name: guess for name, guess in GUESSED.items() if name not in named}
    asked, running = effective_request(spec), effective_request(spec, missing)
    extra = tuple(running.get(name, 0) - asked.get(name, 0) for name in GUESSED)
    if spec.resources is None:
        assert (extra, tuple(running.get(name, 0) for name in GUESSED)) == guesses(spec, asked)
    else:
        assert extra == guesses(spec, asked)[0]


@given(spec=specs)
@examples(200)
def test_the_quality_of_service_is_that_of_all_containers(spec: PodSpec) -> None:
    """Guaranteed where each has limits and asks for these, best effort where none asks for anything."""
    everyone = [c.resources for c in (*spec.containers, *spec.init_containers)]
    limits = [int(r.limits.get(name, 0)) for r in everyone for name in GUESSED]
    asked = [int(r.requests.get(name, r.limits.get(name, 0))) for r in everyone for name in GUESSED]
    sums = [(sum(asked[i::2]), sum(limits[i::2])) for i in range(2)]
    if not any(asked) and not any(limits):
        expected = BEST_EFFORT
    else:
        expected = GUARANTEED if all(limits) and all(a == b for a, b in sums) else BURSTABLE

    assert expected == qos_class(spec)
