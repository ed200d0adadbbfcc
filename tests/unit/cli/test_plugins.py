"""`tierwise plugins` lists what a configuration may name; tests/examples asks it about other people's plugins."""

from __future__ import annotations

import pytest
from tests.support.commands import answer, run

from tierwise import __version__
from tierwise.config.volcano import ARGUMENTS
from tierwise.explain.page import Page
from tierwise.explain.text.plugins import CheckedPlugin, plugin_lines, plugin_wire
from tierwise.framework.registry import InstalledPlugin
from tierwise.plugins import PLUGINS


def test_every_plugin_is_listed_with_points_and_arguments() -> None:
    """Those of tierwise, in the order of their names."""
    found = {plugin["name"]: plugin for plugin in answer("plugins")["plugins"] if plugin["package"] == "tierwise"}

    assert sorted(PLUGINS.built_in) == sorted(found)
    assert {__version__} == {plugin["version"] for plugin in found.values()}
    assert ["EnqueueGate", "JobOrder"] == found["sla"]["points"]
    assert ["sla-waiting-time"] == found["sla"]["arguments"]
    assert ARGUMENTS["predicates"].split() == found["predicates"]["arguments"]


@pytest.mark.parametrize("width", [80, 160])
def test_the_list_fits_the_page(width: int) -> None:
    """One line to a plugin, or a few where it takes part in much."""
    lines = run("plugins", width=width).stdout.splitlines()

    assert f"{len(PLUGINS.built_in)} plugins of tierwise {__version__}" == lines[0]
    assert max(map(len, lines)) <= width
    assert any(line.split() == ["sla", "1", "EnqueueGate,", "JobOrder"] for line in lines)


def test_a_plugin_is_shown_in_full() -> None:
    """With the names of its arguments."""
    lines = run("plugins", "sla", "gang").stdout.splitlines()

    assert "  arguments         sla-waiting-time" in lines
    assert "  arguments         none" in lines
    assert "binpack" not in " ".join(lines)


def test_a_name_that_nobody_has_is_bad_input() -> None:
    """With the name that was probably meant."""
    result = run("plugins", "gagn")

    assert (2, "tierwise: unknown plugin gagn (did you mean gang?)\n") == (result.exit_code, result.stderr)


def test_what_cannot_be_used_is_said_at_the_end() -> None:
    """With its reason, on the page and for programs."""
    plugin = InstalledPlugin("power", "acme", "1.2", "acme:Power")
    found = [CheckedPlugin(plugin, problem="acme 1.2 cannot be imported: OSError: no licence")]

    lines = [line.plain for line in plugin_lines(Page(), found)]
    assert ["", "Cannot be used", "  power  acme 1.2 cannot be imported: OSError: no licence"] == lines
    assert "acme 1.2 cannot be imported: OSError: no licence" == plugin_wire(found)["plugins"][0]["problem"]  # type: ignore[index]
