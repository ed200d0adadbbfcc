"""Who may ask in which form a gang was declared: a list that only shrinks, in files and in conditions."""

from __future__ import annotations

from pathlib import Path

from tools.forms_of_gangs import conditions_by_file

_ALLOWED = {
    "actions/diagnosis/fabrics.py": 1,
    "actions/diagnosis/rejection_cache.py": 1,
    "actions/diagnosis/verdicts.py": 1,
    "actions/enqueue.py": 1,
    "actions/eviction/classic.py": 2,
    "actions/eviction/repair.py": 1,
    "actions/placement/apart.py": 1,
    "actions/placement/bounds.py": 2,
    "actions/placement/demand.py": 7,
    "actions/placement/exact.py": 7,
    "actions/placement/problem.py": 1,
    "actions/placement/program.py": 1,
    "actions/placement/quanta.py": 1,
    "actions/placement/slots.py": 2,
    "actions/placement/surplus.py": 1,
    "actions/placement/trial.py": 3,
    "audit/gangs.py": 1,
    "controllers/job/frameworks.py": 2,
    "controllers/job/policies.py": 1,
    "dialects/groups.py": 10,
    "dialects/jobs.py": 4,
    "explain/decision_basis.py": 1,
    "explain/job_location.py": 1,
    "explain/ranges.py": 2,
    "explain/second_solver.py": 1,
    "explain/text/explain_job.py": 1,
    "explain/text/explain_pod.py": 3,
    "explain/text/narrative.py": 2,
    "explain/timeline.py": 1,
    "framework/ledger.py": 6,
    "framework/pipeline.py": 1,
    "model/gang.py": 2,
    "model/job.py": 2,
    "model/job_counts.py": 1,
    "model/running.py": 1,
    "model/snapshot.py": 1,
    "plugins/coscheduling.py": 3,
    "plugins/gang.py": 3,
    "plugins/network_topology/plugin.py": 3,
    "sim/what_if/changes.py": 1,
    "snapshot/jobs.py": 2,
}
"""By file below src/tierwise, how many of its conditions may ask. Lower a number when code has come to ask less; a file
that asks nothing leaves the list. Nothing is added."""

_SLACK = 12
"""How far the list may stay above what is measured, for who deletes such conditions elsewhere."""


def test_no_file_asks_more_than_it_may() -> None:
    """A condition on the form of a gang stands in a listed file, and in none more often than listed."""
    more = {name: n for name, n in conditions_by_file().items() if n > _ALLOWED.get(name, 0)}

    assert {} == more


def test_list_shrinks_with_the_code() -> None:
    """The list is not above what the sources need, but for what was deleted just now."""
    assert sum(_ALLOWED.values()) - sum(conditions_by_file().values()) <= _SLACK


def test_each_way_to_ask_counts(tmp_path: Path) -> None:
    """Tests of `if` and of filters, and operands, count once each; what is no condition counts nothing."""
    (tmp_path / "some.py").write_text(
        "if job.policies and job.roles:\n    wide = [sub for sub in subs if sub.inner_group >= 0]\n"
        "number = len(job.policies)\nnear = 1 if job.gather else 2\n"
    )

    assert {"some.py": 3} == conditions_by_file(tmp_path)
