"""A KubeSchedulerConfiguration becomes a profile: plugins by point, weights, several profiles, clear refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import EXAMPLES, run

from tierwise.api.errors import InputError
from tierwise.config.kube import read_kube
from tierwise.config.kube_names import PLUGINS
from tierwise.config.profile import PluginChoice, Profile


def read(*profiles: dict[str, object], version: str = "v1", **rest: object) -> Profile:
    """The profile of a configuration with these profiles."""
    return read_kube(
        {
            "apiVersion": f"kubescheduler.config.k8s.io/{version}",
            "kind": "KubeSchedulerConfiguration",
            "profiles": list(profiles),
            **rest,
        }
    )


def choice(profile: Profile, name: str) -> PluginChoice:
    """The one choice of that name."""
    return next(plugin for plugin in profile.plugins() if plugin.name == name)


def weights(profile: Profile, scheduler: str | None = None) -> dict[str, float]:
    """What each of Kubernetes' scores counts for; those that are off are left out."""
    own = (p for p in profile.plugins() if p.scheduler == scheduler and p.name in PLUGINS)
    return {p.name: p.weight for p in own if PLUGINS[p.name].switches == {"NodeOrder": "score"} and not p.off}


def test_without_profiles_the_defaults_hold() -> None:
    """Weights as in Kubernetes, preemption on, gangs and topology kept, best-effort pods in line with the others."""
    profile = read()

    assert ("enqueue", "allocate", "podpreempt") == profile.actions
    assert {"predicates", "gang", "network-topology-aware"} <= {p.name for p in profile.plugins()}
    assert all(choice(profile, "predicates").arguments.values())
    assert {
        "ImageLocality": 1,
        "InterPodAffinity": 2,
        "NodeAffinity": 2,
        "NodeResourcesBalancedAllocation": 1,
        "NodeResourcesFit": 1,
        "PodTopologySpread": 2,
        "TaintToleration": 3,
    } == weights(profile)
    assert not profile.backfills


def test_v1beta2_has_other_weights() -> None:
    """Taints and affinity weighed 1 before v1beta3."""
    found = weights(read(version="v1beta2"))

    assert (1, 1, 2) == tuple(found[name] for name in ("TaintToleration", "InterPodAffinity", "PodTopologySpread"))


def test_a_point_disables_and_enables_by_name() -> None:
    """Disabling a score leaves the filter; an alias of a document is understood; a weight replaces the default."""
    score = {
        "disabled": [{"name": "TaintToleration"}, {"name": "NodeResourcesFit"}],
        "enabled": [{"name": "BalancedAllocation", "weight": 7}, {"name": "ImageLocality"}],
    }
    profile = read({"plugins": {"score": score}})
    found = weights(profile)

    assert choice(profile, "predicates").arguments["predicate.TaintTolerationEnable"] is True
    assert not {"TaintToleration", "NodeResourcesFit"} & set(found)
    assert (7, 1) == (found["NodeResourcesBalancedAllocation"], found["ImageLocality"])


def test_a_star_disables_everything_at_its_point() -> None:
    """Also for multiPoint, and what is enabled beside it stays."""
    star = {"disabled": [{"name": "*"}]}
    quiet = read({"plugins": {"score": star, "postFilter": star}})
    bare = read({"plugins": {"multiPoint": {**star, "enabled": [{"name": "NodeAffinity", "weight": 4}]}}})

    assert {} == weights(quiet)
    assert ("enqueue", "allocate") == quiet.actions
    flags = choice(bare, "predicates").arguments
    assert ["predicate.NodeAffinityEnable"] == [k for k, on in flags.items() if on and k != "kubernetes"]
    assert {"NodeAffinity": 4} == weights(bare)


@pytest.mark.parametrize("point", ["postFilter", "multiPoint"])
def test_preemption_that_is_named_comes_before_the_default(point: str) -> None:
    """Koordinator's order: jobs, quotas, and then any pod; all of it in the turn of whoever was refused."""
    named = {point: {"enabled": [{"name": "Coscheduling"}, {"name": "ElasticQuota"}]}}
    preempts = [{"name": "Coscheduling", "args": {"enablePreemption": True}}]
    profile = read({"plugins": named, "pluginConfig": preempts})

    assert ("jobpreempt", "quotapreempt", "podpreempt") == profile.actions[-3:]
    assert profile.immediate_preemption


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("NodeResourcesFit", {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "x.io/gpu"}]}}),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 1}]}),
        ("InterPodAffinity", {"hardPodAffinityWeight": 7, "ignorePreferredTermsOfExistingPods": True}),
        ("NodeAffinity", {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}),
        ("PodTopologySpread", {"defaultingType": "List"}),
    ],
)
def test_arguments_of_scores_reach_their_plugin(plugin: str, args: dict[str, object]) -> None:
    """As they stand in the file."""
    profile = read({"pluginConfig": [{"name": plugin, "args": {"kind": f"{plugin}Args", **args}}]})

    assert args == choice(profile, plugin).arguments


@pytest.mark.parametrize(
    ("plugin", "args", "said"),
    [
        ("NodeResourcesFit", {"scoringStrategy": {"type": "Most"}}, "expected one of LeastAllocated"),
        ("NodeResourcesFit", {"scoringStrategy": {"typ": "x"}}, "unknown field typ"),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"name": "cpu", "weight": 101}]}}, "from 0 to 100"),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": [{"weight": 1}]}}, "resources with a name"),
        ("NodeResourcesFit", {"scoringStrategy": {"type": "RequestedToCapacityRatio"}}, "at least one point"),
        (
            "NodeResourcesFit",
            {
                "scoringStrategy": {
                    "type": "RequestedToCapacityRatio",
                    "requestedToCapacityRatio": {
                        "shape": [{"utilization": 50, "score": 0}, {"utilization": 50, "score": 10}]
                    },
                }
            },
            "utilization must grow",
        ),
        ("NodeResourcesFit", {"ignoredResources": ["x.io/gpu"]}, "knows no ignoredResources"),
        ("NodeResourcesFit", {"scoringStrateg": {}}, "has no such argument"),
        ("InterPodAffinity", {"hardPodAffinityWeight": "1"}, "expected a whole number"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "from 0 to 100"),
        (
            "NodeAffinity",
            {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": 3}},
            "not a node affinity",
        ),
        ("PodTopologySpread", {"defaultingType": "Never"}, "expected List or System"),
        ("PodTopologySpread", {"defaultConstraints": [{"maxSkew": 1}]}, "knows no defaultConstraints"),
    ],
)
def test_arguments_that_cannot_be_obeyed_are_refused_by_name(plugin: str, args: dict[str, object], said: str) -> None:
    """No argument is taken and then forgotten."""
    with pytest.raises(InputError, match=said):
        read({"pluginConfig": [{"name": plugin, "args": args}]})


def test_an_own_plugin_stands_where_it_is_enabled() -> None:
    """With its weight and arguments; points that are not enabled are switched off."""
    args = [{"name": "NetworkOverhead", "args": {"kind": "NetworkOverheadArgs", "weightsName": "w"}}]
    scoring = {"score": {"enabled": [{"name": "NetworkOverhead", "weight": 5}]}}
    scored = choice(read({"plugins": scoring, "pluginConfig": args}), "NetworkOverhead")
    whole = choice(read({"plugins": {"multiPoint": {"enabled": [{"name": "NetworkOverhead"}]}}}), "NetworkOverhead")

    assert (5.0, {"weightsName": "w"}) == (scored.weight, scored.arguments)
    assert (False, True) == (scored.enabled("Predicate"), scored.enabled("NodeOrder"))
    assert (1.0, frozenset()) == (whole.weight, whole.off)


def test_a_sort_that_is_named_takes_the_place_of_the_default() -> None:
    """Whether or not the default is disabled; two of them are one too many."""
    sort = {"queueSort": {"enabled": [{"name": "TopologicalSort"}]}}
    two = {"queueSort": {"enabled": [{"name": "TopologicalSort"}, {"name": "QOSSort"}]}}

    assert "TopologicalSort" == read({"plugins": sort}).tiers[0][0].name
    assert "priority" == read().tiers[0][0].name
    with pytest.raises(InputError, match="one plugin orders the queue, not TopologicalSort and QOSSort"):
        read({"plugins": two})


def test_several_profiles_have_plugins_of_their_own() -> None:
    """The first one serves pods of every other scheduler; what is shared stands once."""
    star = {"disabled": [{"name": "*"}]}
    profile = read({"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"score": star}})
    orders = {scheduler: bool(weights(profile, scheduler)) for scheduler in ("", "b")}

    assert ("a", "b") == profile.schedulers
    assert {"": True, "b": False} == orders
    assert 1 == sum(p.name == "gang" for p in profile.plugins())


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        ({"plugins": {"score": {"enabled": [{"name": "Nosuch"}]}}}, r"score.enabled\[0\]: unknown plugin Nosuch"),
        ({"plugins": {"scoring": {}}}, "unknown extension point scoring"),
        ({"plugins": {"score": {"enabled": [{"name": "NodeName", "weight": "x"}]}}}, "weight: expected a whole number"),
        ({"plugins": []}, "expected a mapping of extension points"),
        ({"schedulerName": 7}, "schedulerName: expected a text"),
        ({"pluginConfig": [{"name": "NodeAffinity", "args": {"addedAffinity": 1}}]}, "expected a mapping"),
        ({"pluginConfig": [{"name": "NodeName"}, {"name": "NodeName"}]}, "configured twice"),
        ({"schedulerNames": "x"}, "unknown field schedulerNames"),
    ],
)
def test_what_cannot_be_used_is_refused(profile: dict[str, object], said: str) -> None:
    """One line with the field."""
    with pytest.raises(InputError, match=said) as caught:
        read(profile)
    assert str(caught.value).startswith("profiles[0]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "{apiVersion: kubescheduler.config.k8s.io/v1, kind: KubeSchedulerConfiguration, profiles: 3}",
            "profiles: exp",
        ),
        ("tiers: 3", "tiers: expected a list"),
        ("tiers: [null]", "tiers[0]: expected a mapping with plugins"),
        ("actions: fly", "actions: unknown action fly"),
        ("configurations: [{name: allocate, arguments: {searchSteps: 0}}]", "configurations.allocate.searchSteps: "),
    ],
)
def test_the_command_names_the_file_of_what_cannot_be_used(tmp_path: Path, text: str, said: str) -> None:
    """Whatever reads a configuration, its file is named before the field."""
    file = tmp_path / "scheduler.yaml"
    file.write_text(text)

    result = run("schedule", "-f", EXAMPLES / "01-llm-training", "--config", file)

    assert 2 == result.exit_code
    assert f"{file}: {said}" in result.stderr


@pytest.mark.parametrize(
    ("plugin", "argument", "value", "said"),
    [
        ("Coscheduling", "awareNetworkTopology", "maybe", "expected true or false, not maybe"),
        ("Coscheduling", "defaultMatchPolicy", "sometimes", "expected one of only-waiting, .* not sometimes"),
        ("Coscheduling", "defaultTimeout", "soon", 'expected a duration such as "90s", not soon'),
        ("ElasticQuota", "monitorAllQuotas", 1, "expected true or false, not 1"),
        ("ElasticQuota", "delayEvictTime", "soon", "expected a duration"),
        ("ElasticQuota", "defaultQuotaGroupMax", {"cpu": "x"}, "cpu: x is not a quantity"),
        ("ElasticQuota", "systemQuotaGroupMax", {"cpu": ["1"]}, "cpu: .* is not a quantity"),
        ("ElasticQuota", "systemQuotaGroupMax", "1", "expected a mapping of resources and quantities"),
    ],
)
def test_an_argument_of_the_wrong_type_is_refused(plugin: str, argument: str, value: object, said: str) -> None:
    """With the place where it stands; no default takes its place in silence."""
    with pytest.raises(InputError, match=rf"pluginConfig\[0\].args.{argument}: {said}"):
        read({"pluginConfig": [{"name": plugin, "args": {argument: value}}]})


def test_arguments_that_can_be_read_pass() -> None:
    """Also one that is given as null, and a duration of a bare zero."""
    arguments = {"delayEvictTime": 0, "monitorAllQuotas": None, "defaultQuotaGroupMax": {"cpu": 4, "memory": "1Gi"}}

    read({"pluginConfig": [{"name": "ElasticQuota", "args": arguments}]})


def test_other_refusals() -> None:
    """Versions, extenders, profiles of one name, profiles that disagree on what they must share."""
    with pytest.raises(InputError, match="apiVersion: expected one of"):
        read(version="v1alpha1")
    with pytest.raises(InputError, match="extenders are not supported"):
        read(extenders=[{"urlPrefix": "x"}])
    with pytest.raises(InputError, match="has a profile already"):
        read({"schedulerName": "a"}, {"schedulerName": "a"})
    with pytest.raises(InputError, match="queueSort must be the same"):
        read(
            {"schedulerName": "a"}, {"schedulerName": "b", "plugins": {"queueSort": {"enabled": [{"name": "QOSSort"}]}}}
        )


def test_profiles_may_differ_in_preemption() -> None:
    """Each says which actions make room for its own pods; the cycle has them all."""
    star = {"disabled": [{"name": "*"}]}
    found = read({"schedulerName": "a", "plugins": {"postFilter": star}}, {"schedulerName": "b"})

    assert ("enqueue", "allocate", "podpreempt") == found.actions
    assert {"": False, "b": True} == {name: "podpreempt" in actions for name, actions in found.preempt_actions.items()}


@pytest.mark.parametrize(
    ("plugin", "argument", "value"),
    [
        ("NetworkOverhead", "namespaces", "default"),
        ("NetworkOverhead", "namespaces", [1]),
        ("NetworkOverhead", "weightsName", 5),
        ("NetworkOverhead", "networkTopologyName", ["x"]),
        ("NetworkOverhead", "strict", "yes"),
        ("TopologicalSort", "namespaces", {}),
        ("Coscheduling", "awareNetworkTopology", 1),
        ("ElasticQuota", "monitorAllQuotas", "true"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused(plugin: str, argument: str, value: object) -> None:
    """By name; one that is null counts as not given."""
    with pytest.raises(InputError, match=rf"pluginConfig\[0\]\.args\.{argument}: expected "):
        read({"pluginConfig": [{"name": plugin, "args": {argument: value}}]})

    read({"pluginConfig": [{"name": plugin, "args": {argument: None}}]})


@pytest.mark.parametrize(
    ("profile", "said"),
    [
        (
            {"pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrateggy": {}}}]},
            (
                "profiles[0].pluginConfig[0].args.scoringStrateggy: NodeResourcesFit has no such argument "
                "(did you mean scoringStrategy?)"
            ),
        ),
        (
            {"pluginConfig": [{"name": "Coscheduling", "arguments": {}}]},
            "profiles[0].pluginConfig[0]: unknown field arguments (did you mean args?)",
        ),
        (
            {"plugins": {"score": {"enabled": [{"name": "NodeResourcesFit", "wieght": 3}]}}},
            "profiles[0].plugins.score.enabled[0]: unknown field wieght (did you mean weight?)",
        ),
        (
            {"plugins": {"scores": {}}},
            "profiles[0].plugins: unknown extension point scores (did you mean score?)",
        ),
        ({"plugin": {}}, "profiles[0]: unknown field plugin (did you mean plugins?)"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_right_one(profile: dict[str, object], said: str) -> None:
    """At every level, a word that nobody knows ends the run and names what was probably meant."""
    with pytest.raises(InputError) as caught:
        read_kube(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "profiles": [profile],
            }
        )

    assert said == str(caught.value)


def test_plugins_without_effect_are_noted_once_and_take_any_argument() -> None:
    """Names of other projects do not stop the run; what they mean here is said."""
    names = ["LoadAwareScheduling", "NodeResourceTopologyMatch", "TargetLoadPacking"]
    profile = {
        "plugins": {
            "filter": {"enabled": [{"name": n} for n in names]},
            "score": {"enabled": [{"name": n} for n in names]},
        },
        "pluginConfig": [{"name": name, "args": {"anything": 1}} for name in names],
    }
    raw = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration", "profiles": [profile]}

    assert names == [note.split()[1] for note in read_kube(raw).notes]


def test_weight_given_everywhere_holds_at_a_point_that_names_none() -> None:
    """A plugin that is named again keeps its weight, and one that is given there replaces it."""
    everywhere = {"enabled": [{"name": "ImageLocality", "weight": 7}]}

    def weight(**given: int) -> float:
        score = {"enabled": [{"name": "ImageLocality", **given}]}
        return weights(read({"plugins": {"multiPoint": everywhere, "score": score}}))["ImageLocality"]

    assert (7.0, 3.0) == (weight(), weight(weight=3))


@pytest.mark.parametrize(
    ("plugins", "noted"),
    [
        ({"multiPoint": {"disabled": [{"name": "VolumeBinding"}]}}, ["VolumeBinding"]),
        (
            {"filter": {"disabled": [{"name": "VolumeZone"}, {"name": "DynamicResources"}]}},
            ["VolumeZone", "DynamicResources"],
        ),
        ({"score": {"disabled": [{"name": "VolumeBinding"}]}}, []),
        (
            {
                "filter": {
                    "disabled": [{"name": "*"}],
                    "enabled": [{"name": "VolumeBinding"}, {"name": "DynamicResources"}],
                }
            },
            ["VolumeZone", "VolumeRestrictions", "NodeVolumeLimits"],
        ),
    ],
)
def test_rules_of_volumes_and_devices_cannot_be_switched_off(plugins: dict[str, object], noted: list[str]) -> None:
    """Who tries is told."""
    notes = read({"plugins": plugins}).notes

    assert [f"disabling plugin {name} has no effect" for name in noted] == [note.partition(":")[0] for note in notes]


def test_arguments_that_have_no_effect_are_noted() -> None:
    """Ranking by storage, and the time for a search."""
    given = [
        {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 5, "shape": [{"utilization": 0, "score": 1}]}},
        {"name": "DynamicResources", "args": {"filterTimeout": "5s", "bindingTimeout": "9s"}},
    ]
    notes = read({"pluginConfig": given}).notes

    assert ["shape of plugin VolumeBinding", "filterTimeout of plugin DynamicResources"] == [
        note.partition("argument ")[2].partition(" has")[0] for note in notes
    ]
