"""The page of labels and annotations, made from the tables in the code.

`python -m tests.support.keys_page` writes it; `tests/unit/api/test_keys.py` holds the page against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import Final

from tests.support.commands import ROOT

from tierwise.api.keys import OPERATORS, Key, known_keys
from tierwise.api.tenant_inputs import TENANT_INPUTS

__all__ = ["PAGE", "cap", "page"]

PAGE: Final = ROOT / "docs" / "reference" / "annotations.md"
_HEAD: Final = """# Annotations and labels

Every label and annotation that tierwise reads or writes: of which form it is, on which objects, who writes it, and up to what it counts.
This page is made from [a table in the code](../../src/tierwise/api/keys.txt), and its caps from [the one of what tenants write](../security-model.md#what-a-tenant-writes-and-the-scheduler-obeys), which has charges and switches too; tests hold both against the sources, and play a pair of small clusters for each row, place and language: with and without it something else is decided, or told.

- *job* is the group of a gang in any [language](../languages/README.md), or the workload that the group is made for: its group says the same from when it is made.
- *group* is an object that declares one gang: a PodGroup of any language, or a PodGang; *workload* is whatever makes pods of a template (Deployments, Jobs, those of operators), *template* that template.
- Where several objects declare one gang (gangs of Koordinator that start together, a composite and the groups in it), each may say it, and the first that does counts; a constraint on a group in a composite is about that group alone, and its sets are said by the composite.
- A duration is written as `30s`, `10m`, `1h30m`; a time as `2026-01-01T00:00:00Z`.
- *Owner* is who writes it. What tierwise writes is overwritten; where a tenant forges it on its own objects, the cap is what that can do.
- A misspelt key under `tierwise.io/`, or an annotation that is written as a label, has no effect; `tierwise validate` and the admission webhook warn of it.
- Labels of nodes from which a topology is discovered are in [Topology discovery](../guides/topology-discovery.md); those of other schedulers that make a pod wait are in [Kubernetes support](kubernetes-support.md).
"""  # noqa: E501 - one sentence in a line, as on every page
_COLUMNS: Final = "| Key | Form | On | Type | Owner | Says | Example | Up to |\n|---|---|---|---|---|---|---|---|\n"


def cap(key: Key) -> str:
    """Up to what a key counts."""
    if key.cap == OPERATORS:
        return "operators alone write it"
    (found,) = (row for row in TENANT_INPUTS if (key.cap or key.name) in row.keys)
    return found.cap.replace("](reference/", "](")


def _lines() -> Iterator[str]:
    yield _HEAD
    for section, keys in groupby(known_keys(), lambda key: key.section):
        yield f"\n## {section}\n\n{_COLUMNS}"
        for key in keys:
            cells = (f"`{key.name}`", key.form, key.on, key.type, key.owner, key.says, f"`{key.example}`", cap(key))
            yield f"| {' | '.join(cells)} |\n"


def page() -> str:
    """All of it."""
    return "".join(_lines())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
