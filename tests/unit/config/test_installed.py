"""Plugins of other packages in both formats: named, switched and given arguments like those of tierwise itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import pytest

from tierwise.api.errors import InputError
from tierwise.config.kube import read_kube
from tierwise.config.profile import Offer, PluginChoice, Profile
from tierwise.config.volcano import read_volcano
from tierwise.framework.declaration import METHODS, POINTS, Declaration


class Given(msgspec.Struct):
    """The arguments of the plugin that is installed here."""

    weight: float = 1.0


def _points(*names: str) -> Declaration:
    points = tuple(POINTS[name] for name in names)
    return Declaration(points, Given, frozenset(method for method, point in METHODS.items() if point in points))


OTHERS = {
    "power": _points("Filter", "Scorer"),
    "usage": _points("Scorer"),
    "Peaks": _points("Scorer"),
    "fair": _points("JobOrder", "Scorer"),
    "choosy": _points("VictimSelector", "TaskOrder"),
}


class _Installed(Mapping[str, Offer]):
    """The others, and one that cannot be imported."""

    def __getitem__(self, name: str) -> Offer:
        if name == "broken":
            raise InputError("plugin broken: acme 1 cannot be imported: OSError: no licence")
        return OTHERS[name]

    def __iter__(self) -> Iterator[str]:
        return iter(OTHERS)

    def __len__(self) -> int:
        return len(OTHERS)


def _volcano(name: str, arguments: Mapping[str, object] | None = None, **switches: bool) -> Profile:
    plugin = {"name": name, "arguments": arguments or {}, **switches}
    return read_volcano({"tiers": [{"plugins": [{"name": "gang"}, plugin]}]}, _Installed())


def _kube(plugins: Mapping[str, object], config: Sequence[object] = ()) -> Profile:
    profile = {"plugins": plugins, "pluginConfig": list(config)}
    version = "kubescheduler.config.k8s.io/v1"
    raw = {"apiVersion": version, "kind": "KubeSchedulerConfiguration", "profiles": [profile]}
    return read_kube(raw, _Installed())


def _choices(profile: Profile, name: str) -> list[PluginChoice]:
    return [plugin for plugin in profile.plugins() if plugin.name == name]


def test_volcano_names_switches_and_gives_arguments() -> None:
    """As for any other plugin."""
    (found,) = _choices(_volcano("power", {"weight": 2}, enableNodeOrder=False), "power")

    assert {"weight": 2} == found.arguments
    assert frozenset({"NodeOrder"}) == found.off


def test_a_name_without_effect_has_one_where_a_package_gives_it() -> None:
    """In both formats nothing is taken out, and nothing is noted."""
    volcano, kube = _volcano("usage"), _kube({"score": {"enabled": [{"name": "Peaks"}]}})

    assert _choices(volcano, "usage")
    assert () == volcano.notes
    assert _choices(kube, "Peaks")
    assert () == kube.notes
    assert not _choices(_volcano("tdm"), "tdm")


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("power", {"wieght": 2}, "arguments.wieght: plugin power: unknown argument (did you mean weight?)"),
        ("power", {"weight": "much"}, "arguments.weight: plugin power: expected float, got str"),
        ("broken", {}, "plugin broken: acme 1 cannot be imported: OSError: no licence"),
    ],
)
def test_volcano_refuses_what_a_plugin_does_not_know(name: str, arguments: Mapping[str, object], text: str) -> None:
    """The error has the file, the place and the plugin."""
    with pytest.raises(InputError) as caught:
        _volcano(name, arguments)

    dot = "." if arguments else ": "
    assert f"tiers[0].plugins[1]{dot}{text}" == str(caught.value)


def test_kube_enables_a_plugin_at_one_point() -> None:
    """What it does at the others is switched off, and its weight counts."""
    (found,) = _choices(_kube({"score": {"enabled": [{"name": "power", "weight": 3}]}}), "power")

    assert frozenset({"Predicate"}) == found.off
    assert 3.0 == found.weight


def test_kube_enables_a_plugin_at_all_its_points() -> None:
    """MultiPoint means every point that it has, and one of them may be taken away again."""
    config = [{"name": "power", "args": {"kind": "PowerArgs", "weight": 2}}]
    everywhere = {"multiPoint": {"enabled": [{"name": "power"}]}}
    (whole,) = _choices(_kube(everywhere, config), "power")
    (part,) = _choices(_kube({**everywhere, "filter": {"disabled": [{"name": "power"}]}}), "power")

    assert frozenset() == whole.off
    assert {"weight": 2} == whole.arguments
    assert frozenset({"Predicate"}) == part.off


def test_kube_lets_a_plugin_order_the_queue() -> None:
    """It stands for the default one there, and scores as well where it is enabled for that."""
    profile = _kube({"multiPoint": {"enabled": [{"name": "fair"}]}})

    assert [frozenset({"NodeOrder"}), frozenset({"JobOrder"})] == [plugin.off for plugin in _choices(profile, "fair")]


def test_kube_knows_where_every_point_stands() -> None:
    """A plugin that only chooses victims and orders pods is enabled like any other."""
    (found,) = _choices(_kube({"multiPoint": {"enabled": [{"name": "choosy"}]}}), "choosy")
    (part,) = _choices(_kube({"postFilter": {"enabled": [{"name": "choosy"}]}}), "choosy")

    assert frozenset() == found.off
    assert frozenset({"TaskOrder"}) == part.off


@pytest.mark.parametrize(
    ("plugins", "config", "text"),
    [
        (
            {"filter": {"enabled": [{"name": "usage"}]}},
            [],
            "profiles[0].plugins.filter.enabled[0]: plugin usage has no part in filter, but in score",
        ),
        (
            {},
            [{"name": "power", "args": {"wieght": 2}}],
            "profiles[0].pluginConfig[0].args.wieght: unknown argument (did you mean weight?)",
        ),
        (
            {},
            [{"name": "power", "args": {"weight": "much"}}],
            "profiles[0].pluginConfig[0].args.weight: expected float, got str",
        ),
        (
            {"score": {"enabled": [{"name": "broken"}]}},
            [],
            "profiles[0].plugins.score.enabled[0]: plugin broken: acme 1 cannot be imported: OSError: no licence",
        ),
        (
            {"score": {"enabled": [{"name": "powr"}]}},
            [],
            "profiles[0].plugins.score.enabled[0]: unknown plugin powr (did you mean power?) (there are ",
        ),
        (
            {"score": {"enabled": [{"name": "nobody"}]}},
            [],
            "profiles[0].plugins.score.enabled[0]: unknown plugin nobody (there are ",
        ),
    ],
)
def test_kube_refuses_what_a_plugin_does_not_know(plugins: dict[str, object], config: list[object], text: str) -> None:
    """The error has the file, the place and the plugin."""
    with pytest.raises(InputError) as caught:
        _kube(plugins, config)

    assert str(caught.value).startswith(text)
