"""Volcano's format: nothing in it is passed over, names of the field are known, and ConfigMaps are unwrapped."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.commands import manifests, run
from tests.support.manifests import node

import tierwise
import tierwise.plugins
from tierwise.api.errors import InputError
from tierwise.config.actions import ACTIONS
from tierwise.config.arguments import unread
from tierwise.config.volcano import ARGUMENTS, IDLE_PLUGINS, read_volcano
from tierwise.plugins import PLUGINS
from tierwise.scheduler import check_profile

VOLCANO = [
    "binpack",
    "capacity",
    "cdp",
    "conformance",
    "deviceshare",
    "drf",
    "extender",
    "gang",
    "network-topology-aware",
    "nodegroup",
    "nodeorder",
    "numa-aware",
    "overcommit",
    "pdb",
    "predicates",
    "priority",
    "proportion",
    "rescheduling",
    "resource-strategy-fit",
    "resourcequota",
    "sla",
    "task-topology",
    "tdm",
    "usage",
]
"""The plugins that Volcano registers."""


def _refused(raw: object) -> str:
    with pytest.raises(InputError) as caught:
        check_profile(read_volcano(raw))
    return str(caught.value)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ({"action": "allocate"}, "unknown field action (did you mean actions?)"),
        ({"tier": []}, "unknown field tier (did you mean tiers?)"),
        ({}, "a scheduler configuration is a mapping with actions and tiers"),
        ({"tiers": [{"plugin": []}]}, "tiers[0]: unknown field plugin (did you mean plugins?)"),
        (
            {"tiers": [{"plugins": [{"name": "gang", "enablePremptable": False}]}]},
            "tiers[0].plugins[0]: unknown field enablePremptable (did you mean enablePreemptable?)",
        ),
        (
            {"tiers": [{"plugins": [{"name": "overcommit", "overcommit-factor": 2}]}]},
            "tiers[0].plugins[0]: unknown field overcommit-factor (it belongs below arguments)",
        ),
        (
            {"tiers": [{"plugins": [{"name": "binpack", "arguments": {"binpack.wieght": 2}}]}]},
            "tiers[0].plugins[0].arguments: unknown field binpack.wieght (did you mean binpack.weight?)",
        ),
        (
            {"configurations": [{"name": "gangpreempt", "argument": {}}]},
            "configurations[0]: unknown field argument (did you mean arguments?)",
        ),
        (
            {"configurations": [{"name": "gangpreempt", "arguments": {"maxDomain": 1}}]},
            "configurations[0].arguments: unknown field maxDomain (did you mean maxDomains?)",
        ),
        (
            {"configurations": [{"name": "alocate"}]},
            "configurations[0].name: unknown action alocate (did you mean allocate?)",
        ),
        ({"actions": "enqueue, alocate"}, "actions: unknown action alocate (did you mean allocate?)"),
        ({"actions": "shuffle"}, "actions: names no action that has an effect"),
    ],
)
def test_a_misspelt_word_is_refused_with_the_right_one(raw: object, text: str) -> None:
    """At every level, a word that nobody knows ends the run and names what was probably meant."""
    assert text == _refused(raw)


def test_every_plugin_of_volcano_is_known() -> None:
    """What has no effect is noted once and taken out; the rest stays."""
    raw = {"tiers": [{"plugins": [{"name": name} for name in VOLCANO]}] * 2}

    profile = check_profile(read_volcano(raw))

    assert [name for name in VOLCANO if name not in IDLE_PLUGINS] * 2 == [p.name for p in profile.plugins()]
    assert sorted(IDLE_PLUGINS) == sorted({*(note.split()[1] for note in profile.notes), "reservation"})
    assert not set(IDLE_PLUGINS) & set(PLUGINS)


@given(st.data())
def test_actions_may_be_spelled_as_people_spell_them(data: st.DataObject) -> None:
    """Capitals, hyphens and underscores make no difference to the name of an action."""
    name = data.draw(st.sampled_from(sorted(ACTIONS)))
    cut = data.draw(st.integers(0, len(name)))
    between = data.draw(st.sampled_from(["", "-", "_"]))
    written = name[:cut] + between + (name[cut:].capitalize() if data.draw(st.booleans()) else name[cut:])

    assert (name,) == check_profile(read_volcano({"actions": written})).actions


def test_switches_of_old_are_read() -> None:
    """Before Volcano 1.0, plugins were switched off by disable."""
    raw = {"tiers": [{"plugins": [{"name": "gang", "disableJobOrder": True, "disableJobReady": False}]}]}

    assert [frozenset({"JobOrder"})] == [plugin.off for plugin in read_volcano(raw).plugins()]


GOOD = 'actions: "allocate"\ntiers: [{plugins: [{name: priority}, {name: deviceshare}]}]\n'


def _schedule(folder: Path, config: str) -> tuple[int, str]:
    (folder / "conf.yaml").write_text(config)
    objects = manifests(folder, node("n0"))
    result = run("schedule", "-f", objects, "--config", folder / "conf.yaml", "-o", "json")
    return result.exit_code, result.stderr.replace(f"{folder}/", "")


def _config_map(**data: str) -> str:
    lines = [f"  {key}: |\n" + "".join(f"    {line}\n" for line in text.splitlines()) for key, text in data.items()]
    return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n" + "".join(lines)


@pytest.mark.parametrize(
    ("config", "status", "said"),
    [
        (GOOD, 0, "tierwise: warning: conf.yaml: plugin deviceshare has no effect"),
        (_config_map(conf=GOOD), 0, "tierwise: warning: conf.yaml (conf): plugin deviceshare has no effect"),
        (_config_map(readme="a text", conf=GOOD), 0, "conf.yaml (conf): plugin deviceshare has no effect"),
        ("kind: Namespace\napiVersion: v1\nmetadata: {name: x}\n---\n" + _config_map(conf=GOOD), 0, "deviceshare"),
        (_config_map(a=GOOD, b=GOOD), 2, "one configuration is expected, not 2: conf.yaml (a), conf.yaml (b)"),
        (_config_map(a="x: 1", b="y: 2"), 2, "no key of it holds a scheduler configuration (keys: a, b)"),
        (_config_map(conf="action: allocate"), 2, "conf.yaml (conf): unknown field action (did you mean actions?)"),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n",
            2,
            "an object of kind Pod is not a scheduler",
        ),
        ("apiVersion: kubescheduler.config.k8s.io/v1\nprofiles: []\n", 2, "the kind is missing"),
        ("", 2, "a scheduler configuration is a mapping"),
        ("- a\n", 2, "a scheduler configuration is a mapping"),
    ],
)
def test_a_file_holds_one_configuration(tmp_path: Path, config: str, status: int, said: str) -> None:
    """As it is or in a ConfigMap; anything else is bad input, in one line."""
    code, stderr = _schedule(tmp_path, config)

    assert status == code, stderr
    assert said in stderr
    assert 1 == len(stderr.splitlines())


def test_every_argument_that_plugins_read_is_known() -> None:
    """A plugin that reads an argument can be given it."""
    read = re.compile(r'\b(?:flag|number|words|listed)\(arguments, "([^"]+)"|\barguments\.get\("([^"]+)"')
    folder = Path(inspect.getfile(tierwise.plugins)).parent
    found = {next(filter(None, names)) for file in folder.rglob("*.py") for names in read.findall(file.read_text())}
    known = {word for words in ARGUMENTS.values() for word in words.split()}

    assert {"elastic", "enableHierarchy"} == found - known  # which the scheduler and the reader set themselves


def test_action_without_an_effect_is_told_of() -> None:
    """It does no harm beside others, and whoever wrote it is told that it does nothing."""
    profile = read_volcano({"actions": "allocate, shuffle"})

    assert ("allocate",) == profile.actions
    assert ("action shuffle has no effect: running pods are not moved",) == profile.notes


@pytest.mark.parametrize("value", ["no", "false", 0, None])
def test_switch_is_true_or_false(value: object) -> None:
    """Anything else would look as if it switched something off."""
    tiers = [{"plugins": [{"name": "priority", "enablePreemptable": value}]}]
    with pytest.raises(InputError, match="enablePreemptable: expected true or false"):
        read_volcano({"tiers": tiers})


def test_switch_of_the_old_spelling_is_turned_round() -> None:
    """`disable…: true` switches off, `disable…: false` does not."""

    def off(**switch: bool) -> set[str]:
        [[plugin]] = read_volcano({"tiers": [{"plugins": [{"name": "priority", **switch}]}]}).tiers
        return set(plugin.off)

    assert ({"JobOrder"}, set()) == (off(disableJobOrder=True), off(disableJobOrder=False))
    assert (set(), {"JobOrder"}) == (off(enabledJobOrder=True), off(enableJobOrder=False))


@pytest.mark.parametrize(
    ("name", "value", "noted"),
    [
        ("predicate.VolumeBindingEnable", False, "could not start"),
        ("predicate.VolumeZoneEnable", "false", "could not start"),
        ("predicate.NodeVolumeLimitsEnable", False, "could not start"),
        ("predicate.DynamicResourceAllocationEnable", False, "without its devices"),
        ("predicate.VolumeBindingEnable", True, ""),
        ("volumebinding.weight", 3, "not ranked by the storage"),
        ("volumebinding.bindTimeoutSeconds", 5, ""),
        ("dynamicresources.filterTimeoutSeconds", 5, "given up after a number of steps"),
    ],
)
def test_switches_of_volumes_and_devices_that_have_no_effect_are_noted(name: str, value: object, noted: str) -> None:
    """A site that counts on one is told, when the configuration is read."""
    raw = {"actions": "allocate", "tiers": [{"plugins": [{"name": "predicates", "arguments": {name: value}}]}]}
    notes = read_volcano(raw).notes

    assert bool(noted) == bool(notes)
    assert all(note.startswith(f"argument {name} has no effect: ") and noted in note for note in notes)


_READ = re.compile(r'\b(number|flag)\(\w*[Aa]rguments, (?:f"\{_PREFIX\}([^"]+)"|"([^"]+)")')


def _read_by_plugins() -> set[tuple[str, str]]:
    """The arguments that plugins and actions read as numbers or flags; what is in braces is any name."""
    sources = "\n".join(path.read_text() for path in Path(inspect.getfile(tierwise)).parent.rglob("*.py"))
    found = _READ.findall(sources)
    return {(kind, re.sub(r"\{\w+\}", "any", own or name)) for kind, own, name in found}


@pytest.mark.parametrize(("kind", "name"), sorted(_read_by_plugins()))
def test_every_argument_that_is_read_as_a_number_or_a_flag_is_checked(kind: str, name: str) -> None:
    """Else a value that does not count would go unsaid."""
    good, bad = ("3", "abc") if kind == "number" else ("true", "perhaps")
    full = [known for known in (name, f"hypernode.binpack.{name}", f"predicate.{name}") if unread(known, bad)]

    assert full
    assert not unread(full[0], good)
    assert not unread(full[0], None)


@pytest.mark.parametrize("value", ["abc", -1, "-0.5", "nan", [3], True])
def test_a_value_that_does_not_count_is_told(value: object) -> None:
    """The default counts instead, as in Volcano."""
    arguments = {"hypernode.binpack.normal-pod.fading": value, "weight": 10}
    raw = {"tiers": [{"plugins": [{"name": "network-topology-aware", "arguments": arguments}]}]}

    (note,) = read_volcano(raw).notes

    assert note.startswith("argument hypernode.binpack.normal-pod.fading of network-topology-aware has no effect:")


@pytest.mark.parametrize(
    ("action", "argument", "value", "why"),
    [
        ("gangpreempt", "efficiencyThreshold", "lots", "not a number of at least 0"),
        ("gangpreempt", "efficiencyThreshold", -1, "not a number of at least 0"),
        ("gangreclaim", "maxDomains", "many", "not a number of at least 0"),
        ("jobpreempt", "allowWholeBundle", "perhaps", "neither true nor false"),
        ("preempt", "minCandidateNodesAbsolute", "few", "not a number of at least 0"),
        ("enqueue", "overcommit-factor", "x", "not a number of at least 0"),
    ],
)
def test_arguments_of_actions_that_cannot_be_read_are_noted(
    action: str, argument: str, value: object, why: str
) -> None:
    """The default counts then, and a value that can be read is noted by nobody."""
    raw = {
        "actions": f"enqueue, allocate, {action}",
        "configurations": [{"name": action, "arguments": {argument: value}}],
    }
    good = {**raw, "configurations": [{"name": action, "arguments": {argument: why.startswith("neither") or 1}}]}

    (note,) = read_volcano(raw).notes

    assert note == f'argument {argument} of {action} has no effect: "{value}" is {why}'
    assert () == read_volcano(good).notes
