"""The configuration of tierwise's own: what it refuses, its schema, and that other formats convert into it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from msgspec.structs import replace
from tests.support.commands import EXAMPLES, ROOT, answer, run

from tierwise.api.errors import InputError
from tierwise.config.features import FEATURES
from tierwise.config.profile import DEFAULT, Profile
from tierwise.config.scheduler_profile import read_own, schema, written
from tierwise.manifests.configuration import profile_in
from tierwise.scheduler import check_profile

HEAD = {"apiVersion": "tierwise.io/v1alpha1", "kind": "SchedulerProfile"}
FILES = [
    *EXAMPLES.glob("[!1]*/scheduler.*"),
    *EXAMPLES.glob("1[!1]*/*.conf"),
    *(ROOT / "deploy").rglob("scheduler.conf"),
]


def _configurations() -> list[Any]:
    """Every configuration in the examples and the deployments."""
    return [yaml.load(file.read_text(), Loader=yaml.CSafeLoader) for file in FILES]


def _read(raw: Any) -> Profile | None:
    """The profile of a configuration; None where it is one that has to be refused."""
    try:
        return profile_in(raw, "f")
    except InputError:
        return None


def test_every_configuration_of_the_project_converts_into_the_same_profile() -> None:
    """And what is printed, read again, is printed in the same bytes."""
    for profile in [profile_in(raw, "f") for raw in _configurations()]:
        text = yaml.safe_dump(written(profile), sort_keys=False)
        again = check_profile(read_own(yaml.load(text, Loader=yaml.CSafeLoader)))
        assert replace(profile, notes=(), spelled={}) == again
        assert text == yaml.safe_dump(written(again), sort_keys=False)


def test_what_is_left_out_is_as_in_the_default_profile() -> None:
    """As in Volcano's format."""
    assert DEFAULT == read_own(HEAD)
    assert ("allocate",) == read_own({**HEAD, "actions": ["allocate"]}).actions
    assert () == read_own({**HEAD, "tiers": []}).tiers


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"apiVersion": "tierwise.io/v1"}, "apiVersion: expected tierwise.io/v1alpha1, with kind SchedulerProfile"),
        ({"action": ["allocate"]}, "unknown field action (did you mean actions?)"),
        ({"message": ["x"]}, "unknown field message"),
        ({"actions": "allocate"}, "actions: expected a list, got a string"),
        ({"actions": []}, "actions: expected a list of length >= 1"),
        ({"actions": ["alocate"]}, "actions: unknown action alocate (did you mean allocate?)"),
        ({"tiers": [["gang"]]}, "tiers[0]: expected a mapping with plugins"),
        ({"tiers": [{"plugins": ["gang"]}]}, "tiers[0].plugins[0]: expected a mapping with a name"),
        ({"tiers": [{"plugins": [{"nam": "gang"}]}]}, "tiers[0].plugins[0]: unknown field nam (did you mean name?)"),
        ({"tiers": [{"plugins": [{"name": 5}]}]}, "tiers[0].plugins[0].name: expected a string, got an integer"),
        (
            {"tiers": [{"plugins": [{"name": "gang", "weight": -1}]}]},
            "tiers[0].plugins[0].weight: expected a number >= 0.0",
        ),
        (
            {"tiers": [{"plugins": [{"name": "gang", "disabled": ["JobOder"]}]}]},
            "tiers[0].plugins[0].disabled: unknown switch JobOder (did you mean JobOrder?)",
        ),
        (
            {"tiers": [{"plugins": [{"name": "binpack", "arguments": {"binpack.wight": 1}}]}]},
            "tiers[0].plugins[0].arguments: unknown field binpack.wight (did you mean binpack.weight?)",
        ),
        (
            {"tiers": [{"plugins": [{"name": "gang", "scheduler": "mine"}]}], "schedulers": ["mine"]},
            "schedulers: plugin gang is for mine, which is not listed after the first (whose name is left empty)",
        ),
        (
            {"actionArguments": {"alocate": {}}},
            "actionArguments: unknown action alocate (did you mean allocate?)",
        ),
        (
            {"actionArguments": {"allocate": {"reservation": "easy"}}},
            "actionArguments.allocate: unknown field reservation (did you mean reservations?)",
        ),
        ({"preemptActions": {"": ["all"]}}, "preemptActions.: unknown action all"),
        ({"featureGates": {"Repairs": True}}, "featureGates: unknown feature gate Repairs (did you mean Repair?)"),
        ({"featureGates": {"Repair": "no"}}, "featureGates.Repair: expected true or false, not no"),
        ({"featureGates": ["Repair"]}, "featureGates: expected a mapping of gates to true or false"),
    ],
)
def test_a_profile_that_is_wrong_is_refused_in_one_line(given: dict[str, object], text: str) -> None:
    """With the field, and the word that was probably meant."""
    with pytest.raises(InputError) as caught:
        check_profile(read_own({**HEAD, **given}))
    assert text == str(caught.value)


def test_the_schema_is_shipped_as_it_is_generated() -> None:
    """What editors are given beside the reference page is what the command prints."""
    shipped = ROOT / "docs" / "reference" / "scheduler-profile.schema.json"

    assert shipped.read_text() == run("config", "schema").stdout


@pytest.mark.parametrize(
    ("given", "valid"),
    [
        (written(DEFAULT), True),
        (written(DEFAULT, every_field=True), True),
        (HEAD, True),
        ({"kind": "SchedulerProfile"}, False),
        ({**HEAD, "action": ["allocate"]}, False),
        ({**HEAD, "actions": ["alocate"]}, False),
        ({**HEAD, "tiers": [{"plugins": [{"name": "gang", "of": []}]}]}, False),
        ({**HEAD, "featureGates": {"Nothing": True}}, False),
        ({**HEAD, "notes": []}, False),
    ],
)
def test_the_schema_says_what_the_reader_says(given: dict[str, object], valid: bool) -> None:
    """To a validator of another project, too."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema())
    plain = json.loads(json.dumps(given))

    assert valid == validator.is_valid(plain)
    assert valid == (_read(plain) is not None)


def test_every_converted_configuration_fits_the_schema() -> None:
    """Whatever format it had."""
    validator = pytest.importorskip("jsonschema").Draft202012Validator(schema())
    profiles = [profile_in(raw, "f") for raw in _configurations()]

    assert [] == [e.message for p in profiles for e in validator.iter_errors(json.loads(json.dumps(written(p))))]


# -- the command line


def test_a_converted_file_schedules_alike(tmp_path: Path) -> None:
    """The whole answer is the same, from a file and from standard input."""
    folder = EXAMPLES / "16-reservations"
    before = run("config", "convert", folder / "reservations.conf")
    file = tmp_path / "profile.yaml"
    file.write_text(before.stdout)
    words = ("schedule", "-f", folder, "--now", "2026-01-01T12:00:00Z")

    assert (before.stdout, "") == (run("config", "convert", "-", stdin=before.stdout).stdout, before.stderr)
    assert answer(*words, "--config", folder / "reservations.conf") == answer(*words, "--config", file)


def test_what_has_no_effect_is_named_and_left_out(tmp_path: Path) -> None:
    """So the second conversion has nothing to say."""
    file = tmp_path / "volcano.conf"
    file.write_text('actions: "allocate, shuffle"\ntiers: [{plugins: [{name: gang}, {name: tdm}]}]\n')
    first = run("config", "convert", file)
    second = run("config", "convert", "-", stdin=first.stdout)

    assert 2 == first.stderr.count("warning: ")
    assert (first.stdout, "") == (second.stdout, second.stderr)


def test_validate_answers_by_its_exit_status(tmp_path: Path) -> None:
    """0 for a good file, 1 for one with errors, 2 for one that cannot be read; programs get the findings."""
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text(run("config", "show-defaults").stdout)
    bad.write_text(yaml.safe_dump({**HEAD, "featureGates": {"Repairs": False}}))
    found = run("config", "validate", bad, good, "-o", "json")

    assert 0 == run("config", "validate", good).exit_code
    assert 1 == run("config", "validate", bad).exit_code == found.exit_code
    message = "unknown feature gate Repairs (did you mean Repair?)"
    assert {
        "valid": False,
        "errors": [{"object": str(bad), "path": "featureGates", "message": message}],
        "warnings": [],
    } == json.loads(found.stdout)


@pytest.mark.parametrize("words", [("config", "convert"), ("config", "validate"), ("features", "--config")])
def test_a_file_that_is_not_there_is_bad_input(words: tuple[str, ...], tmp_path: Path) -> None:
    """In one line."""
    result = run(*words, tmp_path / "none.yaml")

    assert (2, f"tierwise: {tmp_path / 'none.yaml'}: No such file or directory\n") == (result.exit_code, result.stderr)


def test_a_config_map_may_hold_a_scheduler_profile(tmp_path: Path) -> None:
    """As the chart installs it."""
    text = run("config", "convert", EXAMPLES / "16-reservations" / "reservations.conf").stdout
    other = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"scheduler.conf": text, "other": "x: 1"}}
    file = tmp_path / "map.yaml"
    file.write_text(yaml.safe_dump(other))

    assert text == run("config", "convert", file).stdout


def test_the_defaults_name_every_field() -> None:
    """And every gate; they are what no configuration at all comes to."""
    shown = yaml.safe_load(run("config", "show-defaults").stdout)

    assert set(schema()["properties"]) == set(shown)
    assert list(FEATURES) == list(shown["featureGates"])
    assert DEFAULT == replace(read_own(shown), feature_gates={})
