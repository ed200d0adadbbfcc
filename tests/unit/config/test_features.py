"""Feature gates: stages, how each format sets them, and what is different where one is off."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from tests.support.commands import EXAMPLES, ROOT, answer, run
from tests.support.draw import allocate, draw, gang, placed

from tierwise.api.errors import InputError
from tierwise.config.features import FEATURES, Feature, Stage, read_gates
from tierwise.config.kube import read_kube
from tierwise.config.profile import DEFAULT, PluginChoice, Profile
from tierwise.config.reservations import OFF, reservation_rules
from tierwise.config.volcano import read_volcano
from tierwise.runtime.metrics import tell_features, text

KUBE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
WANTS = {"tierwise.io/on-node-loss": "replace", "tierwise.io/spares": "1"}


def _without(*names: str, profile: Profile = DEFAULT) -> Profile:
    return replace(profile, feature_gates=dict.fromkeys(names, False))


# -- stages


def test_a_feature_is_off_in_alpha_and_on_from_beta() -> None:
    """Unless a profile says otherwise; a stable one cannot be switched off."""
    known = {stage.value: Feature(stage, "0.2", "") for stage in Stage}

    assert [False, True, True] == [feature.default for feature in known.values()]
    assert {"alpha": True, "beta": False} == read_gates({"alpha": True, "beta": False}, "f", known)
    with pytest.raises(InputError, match=r"^f\.stable: the feature is stable and cannot be switched off$"):
        read_gates({"stable": False}, "f", known)


def test_what_was_there_before_the_gates_is_in_beta() -> None:
    """Reservations, repair, spares, the price of evictions, defragmentation and the journal: all on."""
    wanted = "DefragmentationExecution EvictionCost Journal Repair Reservations Spares"

    assert wanted.split() == [name for name, feature in FEATURES.items() if feature.stage is Stage.BETA]


def test_the_reference_page_has_every_gate() -> None:
    """With its stage, and with the version since when."""
    lines = (ROOT / "docs" / "reference" / "features.md").read_text().splitlines()
    rows = [[cell.strip(" `") for cell in line.split("|")[1:4]] for line in lines if line.startswith("| `")]

    assert [[name, feature.stage.value, feature.since] for name, feature in FEATURES.items()] == rows


# -- how they are set


@pytest.mark.parametrize(
    "profile",
    [
        read_volcano({"featureGates": {"Repair": False}}),
        read_kube(
            {
                **KUBE,
                "profiles": [{"pluginConfig": [{"name": "Tierwise", "args": {"featureGates": {"Repair": False}}}]}],
            }
        ),
    ],
    ids=["volcano", "kubernetes"],
)
def test_other_formats_have_a_place_for_gates(profile: Profile) -> None:
    """Beside what else they say for tierwise alone."""
    assert {"Repair": False} == profile.feature_gates
    assert [False, True] == [profile.feature("Repair"), profile.feature("Spares")]


def test_a_wrong_gate_of_another_format_is_named_with_its_place() -> None:
    """As every other field."""
    own = {"name": "Tierwise", "args": {"featureGates": {"Repairs": False}}}
    with pytest.raises(
        InputError, match=r"^profiles\[0\]\.pluginConfig\[0\]\.args\.featureGates: unknown feature gate"
    ):
        read_kube({**KUBE, "profiles": [{"pluginConfig": [own]}]})
    with pytest.raises(InputError, match=r"^featureGates\.Repair: expected true or false, not 0"):
        read_volcano({"featureGates": {"Repair": 0}})


def test_the_verb_says_which_are_on(tmp_path: Path) -> None:
    """By default, and by a configuration."""
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump({"featureGates": {"Journal": False}}))

    by_default = {name: feature.default for name, feature in FEATURES.items()}
    assert by_default == {f["name"]: f["enabled"] for f in answer("features")["features"]}
    found = {f["name"]: f for f in json.loads(run("features", "--config", file, "-o", "json").stdout)["features"]}
    assert (False, True, "beta") == tuple(found["Journal"][key] for key in ("enabled", "default", "stage"))
    off = {name for name, enabled in by_default.items() if not enabled}
    assert {"Journal"} | off == {name for name, feature in found.items() if not feature["enabled"]}


def test_metrics_say_which_are_on() -> None:
    """As Kubernetes' components do; of several profiles all must have it on."""
    registry = CollectorRegistry()
    tell_features(registry, [DEFAULT, _without("Spares")])
    found = text(registry).decode().splitlines()

    assert 'tierwise_feature_enabled{name="Repair",stage="BETA"} 1.0' in found
    assert 'tierwise_feature_enabled{name="Spares",stage="BETA"} 0.0' in found
    assert len(FEATURES) == sum(line.startswith("tierwise_feature_enabled{") for line in found)


# -- what is different where one is off


def test_without_reservations_nothing_is_reserved() -> None:
    """Whatever the arguments of allocate say."""
    profile = replace(DEFAULT, action_arguments={"allocate": {"reservations": "easy", "expectedDuration": "1h"}})

    assert "easy" == reservation_rules(profile).mode
    assert OFF == reservation_rules(_without("Reservations", profile=profile)).mode


def test_without_repair_lost_pods_stay_where_they_are() -> None:
    """And no spares are kept."""
    lost = gang("train", tasks=2, within=1, on="n0 n9", marks=WANTS, owned=True)
    world = draw("r0[n0 n1 n2]")

    assert 1 == len(allocate(world, lost).report.evictions)
    assert 0 == len(allocate(world, lost, profile=_without("Repair")).report.evictions)


@pytest.mark.parametrize(("profile", "bound"), [(DEFAULT, 2), (_without("Spares"), 3), (_without("Repair"), 3)])
def test_without_spares_every_node_is_used(profile: Profile, bound: int) -> None:
    """Although a gang asks for one."""
    world = draw("r0[n0..4]", node="cpu=1")
    owner = gang("train", tasks=2, on="n0 n1", marks=WANTS, owned=True)
    outcome = allocate(world, owner, gang("small", tasks=3, minimum=1, owned=True), profile=profile)

    assert bound == sum(placed(outcome, "small").values())


def test_without_eviction_cost_the_plugin_has_no_part() -> None:
    """It stays in the profile, and comes back with its gate."""
    profile = replace(DEFAULT, tiers=(*DEFAULT.tiers, (PluginChoice("eviction-cost"), PluginChoice("repair"))))

    assert "eviction-cost" in {choice.name for choice in profile.plugins()}
    off = _without("EvictionCost", profile=profile)
    assert {"repair"} == {c.name for c in off.plugins()} - {c.name for c in DEFAULT.plugins()}
    assert profile.tiers == off.tiers
    assert not off.enables("eviction-cost", "Preemptable")


@pytest.mark.parametrize(
    ("gate", "words"),
    [
        ("Journal", ("submit", "-f", EXAMPLES / "01-llm-training", "--journal", "journal")),
        (
            "DefragmentationExecution",
            ("defrag", "-f", EXAMPLES / "15-defragmentation", "--for", "nvidia.com/gpu=8x4@rack", "--execute"),
        ),
    ],
)
def test_an_option_of_a_feature_that_is_off_is_bad_input(gate: str, words: tuple[object, ...], tmp_path: Path) -> None:
    """In one line that names the option and the gate."""
    file = tmp_path / "f.yaml"
    file.write_text(yaml.safe_dump({"featureGates": {gate: False}}))
    result = run(*words, "--config", file)
    option = next(str(word) for word in words if word in ("--journal", "--execute"))

    assert (2, f"tierwise: {option}: the feature gate {gate} is off\n") == (result.exit_code, result.stderr)
