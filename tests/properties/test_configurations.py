"""Whatever configuration is accepted, its SchedulerProfile configures the same scheduler, and converts into itself."""

from __future__ import annotations

import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from tierwise.api.codec import Raw
from tierwise.api.errors import InputError
from tierwise.api.yaml_text import documents
from tierwise.config.actions import ACTIONS
from tierwise.config.features import FEATURES
from tierwise.config.kube import POINTS
from tierwise.config.kube_names import DEFAULTS, PLUGINS
from tierwise.config.profile import Profile
from tierwise.config.scheduler_profile import written
from tierwise.config.volcano import ARGUMENTS, IDLE_PLUGINS
from tierwise.manifests.configuration import profile_in

texts = st.one_of(
    st.text(max_size=6), st.sampled_from(["off", "1:30", "null", "0x1F", "1e3", "010", "2001-01-01", "=", "-", "~"])
)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**63), 2**63), st.floats(allow_nan=False, allow_infinity=False), texts
)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2))
gates = st.dictionaries(st.sampled_from(sorted(FEATURES)), st.booleans())


@st.composite
def volcano(draw: st.DrawFn) -> Raw:
    """A file in Volcano's format."""
    actions = draw(st.lists(st.sampled_from([*ACTIONS, "gang-Preempt", "shuffle"]), min_size=1, max_size=4))
    plugins: list[Raw] = []
    for name in draw(st.lists(st.sampled_from([*ARGUMENTS, *IDLE_PLUGINS]), max_size=4)):
        known = [word.replace("*", "x") for word in ARGUMENTS.get(name, "any").split()]
        arguments = draw(st.dictionaries(st.sampled_from(known), values, max_size=2)) if known else {}
        switches = st.dictionaries(st.sampled_from(["enableJobOrder", "enabledNodeOrder"]), st.booleans(), max_size=1)
        plugins.append({"name": name, "arguments": arguments, **draw(switches)})
    named = draw(st.sampled_from(["enqueue", "backfill", "gangpreempt"]))
    own = st.dictionaries(st.sampled_from(ACTIONS[named].arguments.split()), values, max_size=2)
    return {
        "actions": ",".join(actions),
        "tiers": [{"plugins": plugins[:2]}, {"plugins": plugins[2:]}],
        "configurations": [{"name": named, "arguments": draw(own)}],
        "featureGates": draw(gates),
        "trustPodGroupPriority": draw(st.booleans()),
    }


@st.composite
def kubernetes(draw: st.DrawFn) -> Raw:
    """A file of Kubernetes' scheduler, or Koordinator's."""
    names = st.sampled_from(sorted(PLUGINS))
    entries = st.lists(names, max_size=3, unique=True).map(
        lambda found: [{"name": name, "weight": 2} for name in found]
    )
    points = st.dictionaries(
        st.sampled_from(["multiPoint", *(p for p in POINTS if p != "queueSort")]),
        st.fixed_dictionaries({}, optional={"enabled": entries, "disabled": entries | st.just([{"name": "*"}])}),
        max_size=3,
    )
    arguments = [
        {"name": "Coscheduling", "args": {"enablePreemption": draw(st.booleans()), "controllerWorkers": draw(values)}},
        {"name": "ElasticQuota", "args": {"monitorAllQuotas": draw(st.booleans()), "hookPlugins": draw(values)}},
        {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}, "ignoredResources": []}},
        {"name": "NodeAffinity", "args": {"addedAffinity": {}}},
        {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": draw(values)}},
        {"name": "PodTopologySpread", "args": {"defaultingType": "List", "defaultConstraints": None}},
    ]
    profiles: list[Raw] = [
        {
            "schedulerName": name,
            "plugins": draw(points),
            "pluginConfig": draw(st.lists(st.sampled_from(arguments), max_size=2)),
        }
        for name in draw(st.lists(st.sampled_from(["a", "b", "off"]), max_size=3, unique=True))
    ]
    return {
        "apiVersion": f"kubescheduler.config.k8s.io/{draw(st.sampled_from(sorted(DEFAULTS)))}",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }


def _read(raw: object) -> Profile:
    try:
        return profile_in(raw, "f")
    except InputError:
        assume(False)
        raise


@given(volcano() | kubernetes())
def test_a_converted_configuration_is_the_same_profile(raw: Raw) -> None:
    """And converts into the same bytes; only what has no effect is gone."""
    profile = _read(raw)
    text = yaml.safe_dump(written(profile), sort_keys=False)
    [(again, _)] = documents(text.encode(), file="f")

    assert replace(profile, notes=(), spelled={}) == profile_in(again, "f")
    assert text == yaml.safe_dump(written(profile_in(again, "f")), sort_keys=False)
