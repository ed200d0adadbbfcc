"""Tasks as columns: what is asked of them is what going through the tasks would tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tierwise.snapshot.builder import build
from tierwise_lab.bench.manifests import Manifest, group, lone_pod, node, pod, read_manifests

NODES = 4


@given(
    gangs=st.lists(st.lists(st.integers(0, NODES), max_size=4), max_size=3),
    others=st.lists(st.integers(0, NODES), max_size=4),
    asked=st.lists(st.integers(0, NODES - 1), max_size=3, unique=True),
)
def test_tasks_on_rows(gangs: list[list[int]], others: list[int], asked: list[int]) -> None:
    """Those of jobs and those of nobody, each with its job, in the order in which they are held."""
    made: list[Manifest] = [node(i) for i in range(NODES)]
    for number, rows in enumerate(gangs):
        made.append(group(number))
        made += [pod(number, i, on=f"n{at}" if at < NODES else "") for i, at in enumerate(rows)]
    made += [{**lone_pod("s", i, on=f"n{at}" if at < NODES else "")} for i, at in enumerate(others)]
    seen = build(read_manifests(made), 0.0)
    everyone = [*((job, task) for job in seen.jobs for task in job.tasks), *((None, task) for task in seen.others)]

    assert [(j, t) for j, t in everyone if seen.nodes.rows[t.node] in asked] == seen.columns.on_rows(asked)
