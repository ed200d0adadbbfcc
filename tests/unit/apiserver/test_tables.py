"""Columns of `kubectl get`: every kind has some, and whatever an object holds, each of them has a cell."""

from __future__ import annotations

from importlib.resources import files

import pytest
import yaml

from tierwise.api.codec import Raw
from tierwise.apiserver.kinds import KINDS, ServedKind
from tierwise.apiserver.tables import table

NOW = 1_800_000_000.0
ODD: list[object] = [None, "", 3, True, [], {}, ["a"], {"a": {"b": 1}}]


@pytest.mark.parametrize("served", KINDS, ids=lambda served: served.resource)
def test_every_kind_has_a_cell_for_each_column(served: ServedKind) -> None:
    """Also of objects that hold nothing, or something else than they should."""
    raws: list[Raw] = [{"metadata": {"name": "x"}, "spec": odd, "status": odd, "data": odd} for odd in ODD]
    made = table(served, raws, {}, now=NOW)
    rows, columns = made["rows"], made["columnDefinitions"]

    assert isinstance(rows, list)
    assert isinstance(columns, list)
    assert ["Name"] == [column["name"] for column in columns if column["format"]]
    assert {len(columns)} == {len(row["cells"]) for row in rows}
    assert {"x"} == {row["cells"][0] for row in rows}


def test_columns_are_of_kinds_that_are_served() -> None:
    """A misspelt name would leave a kind with its name and age."""
    listed = yaml.safe_load(files("tierwise.apiserver").joinpath("printer_columns.yaml").read_text())

    assert set() == set(listed) - {served.resource for served in KINDS if served.definition is None}


def test_what_is_not_there_is_said_as_kubernetes_says_it() -> None:
    """Numbers are 0, names are <none>, a budget without a bound has N/A, and a cluster's own words count."""
    (nodes,) = (served for served in KINDS if served.resource == "nodes")
    (budgets,) = (served for served in KINDS if served.resource == "poddisruptionbudgets.policy")
    bare: Raw = {"metadata": {"name": "x"}}
    labelled: Raw = {
        "metadata": {"name": "x", "labels": {"node-role.kubernetes.io/gpu": ""}},
        "status": {"allocatable": {}},
    }

    def cells(served: ServedKind, raw: Raw) -> object:
        rows = table(served, [raw], {}, now=NOW)["rows"]
        assert isinstance(rows, list)
        return rows[0]["cells"]

    assert ["x", "Unknown", "<none>", "<unknown>", "simulated"] == cells(nodes, bare)
    assert ["x", "Ready", "gpu", "<unknown>", "simulated"] == cells(nodes, labelled)
    assert ["x", "N/A", "N/A", 0, "<unknown>"] == cells(budgets, bare)
    assert ["x", "50%", "1", 0, "<unknown>"] == cells(
        budgets, {**bare, "spec": {"minAvailable": "50%", "maxUnavailable": 1}}
    )


@pytest.mark.parametrize("field", ["configmapName", "configMapName"])
@pytest.mark.parametrize("group", ["networktopology.diktyo.x-k8s.io", "scheduling.sigs.x-k8s.io"])
def test_the_config_map_of_a_network_topology_is_shown_in_either_spelling(group: str, field: str) -> None:
    """The proposal's examples spell it otherwise than its type."""
    served = next(kind for kind in KINDS if (kind.group, kind.kind) == (group, "NetworkTopology"))
    made = table(served, [{"metadata": {"name": "x"}, "spec": {field: "metrics"}}], {}, now=NOW)

    assert isinstance(made["rows"], list)
    assert "metrics" in made["rows"][0]["cells"]
