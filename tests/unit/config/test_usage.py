"""What a profile says of usage: in our words, in Volcano's, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tierwise.api.errors import InputError
from tierwise.config.usage import UsageRules, usage_rules
from tierwise.config.volcano import read_volcano
from tierwise.scheduler import check_profile


def rules(**arguments: Any) -> UsageRules | None:
    """Of a configuration with the plugin and these arguments."""
    plugin = {"name": "fairshare", "arguments": arguments}
    return usage_rules(check_profile(read_volcano({"actions": "allocate", "tiers": [{"plugins": [plugin]}]})))


def test_without_the_plugin_nothing_is_remembered() -> None:
    """The default profile has none."""
    assert usage_rules(read_volcano({"actions": "allocate"})) is None


def test_our_words() -> None:
    """Durations, weights in thousandths, the namespace of the record."""
    found = rules(halfLife="168h", weights={"cpu": 1, "nvidia.com/gpu": 40.5}, entry="0s", aging="24h", record="tw")

    assert found is not None
    assert (168 * 3600.0, 0.0, 86_400.0, "tw") == (found.half_life, found.entry, found.aging, found.namespace)
    assert (("cpu", 1000), ("nvidia.com/gpu", 40_500)) == found.weights
    assert found.between_queues


def test_volcanos_words() -> None:
    """Namespaces take turns by one resource, and queues share as before."""
    found = rules(
        **{
            "fairshare.halfLifeMinutes": "30",
            "fairshare.targetQueues": "a, b",
            "fairshare.resourceKey": "cpu",
            "fairshare.resourceKey.b": "nvidia.com/gpu",
            "fairshare.persistState": "true",
        }
    )

    assert found is not None
    assert (1800.0, frozenset("ab"), "volcano-system") == (found.half_life, found.queues, found.namespace)
    assert ((("cpu", 1000),), {"b": (("nvidia.com/gpu", 1000),)}) == (found.weights, found.weights_of)
    assert not found.between_queues


def test_volcanos_defaults_are_told() -> None:
    """Four hours of nvidia.com/gpu; a note says so, and one for each word without effect."""
    plugin = {"name": "fairshare", "arguments": {"fairshare.enableEnqueueGate": "true"}}
    profile = read_volcano({"actions": "allocate", "tiers": [{"plugins": [plugin]}]})
    found = usage_rules(profile)

    assert found is not None
    assert (4 * 3600.0, (("nvidia.com/gpu", 1000),), "") == (found.half_life, found.weights, found.namespace)
    assert ["fairshare.enableEnqueueGate", "fairshare.halfLifeMinutes"] == sorted(
        word for note in profile.notes for word in note.split() if word.startswith("fairshare.")
    )


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"entry": "5m"}, "halfLife"),
        ({"halfLife": "0s"}, "halfLife"),
        ({"halfLife": ""}, "halfLife"),
        ({"halfLife": None}, "halfLife"),
        ({"halfLife": 7}, "halfLife"),
        ({"halfLife": "-1h"}, "halfLife"),
        ({"halfLife": "1h", "aging": "0s"}, "aging"),
        ({"halfLife": "1h", "weights": {}}, "weights"),
        ({"halfLife": "1h", "weights": {"cpu": -1}}, "weights.cpu"),
        ({"halfLife": "1h", "weights": {"cpu": True}}, "weights.cpu"),
        ({"halfLife": "1h", "weights": {"cpu": float("nan")}}, "weights.cpu"),
        ({"halfLife": "1h", "weights": {"cpu": 0}}, "weights"),
        ({"halfLife": "1h", "record": "a/b"}, "record"),
        ({"halfLife": "1h", "modelLabel": ""}, "modelLabel"),
        ({"fairshare.halfLifeMinutes": 0}, "fairshare.halfLifeMinutes"),
        ({"fairshare.halfLifeMinutes": "0"}, "fairshare.halfLifeMinutes"),
        ({"fairshare.halfLifeMinutes": "soon"}, "fairshare.halfLifeMinutes"),
        ({"fairshare.halfLifeMinutes": 1.5}, "fairshare.halfLifeMinutes"),
        ({"fairshare.halfLifeMinutes": 60, "halfLife": "1h"}, "arguments"),
    ],
)
def test_what_cannot_be_meant_is_refused(arguments: dict[str, Any], field: str) -> None:
    """A half-life of zero, or none, is never silently off; the field is named."""
    with pytest.raises(InputError) as found:
        rules(**arguments)

    assert (found.value.field or "").endswith(field)


def test_an_unknown_argument_is_refused() -> None:
    """With a suggestion."""
    with pytest.raises(InputError, match="halflife"):
        rules(halflife="1h")


def test_the_file_that_was_refused_is_read(tmp_path: Path) -> None:
    """Volcano's profile with the plugin, as a command takes it."""
    from tests.support.commands import run

    file = tmp_path / "fairshare.conf"
    file.write_text(
        'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins:\n  - name: priority\n  - name: gang\n'
        "  - name: fairshare\n    arguments: {fairshare.halfLifeMinutes: 240}\n- plugins:\n  - name: predicates\n"
    )

    assert 0 == run("config", "validate", str(file)).exit_code
