"""`tierwise audit`: a cluster, or manifests of one, held against what tierwise promises."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from tierwise.cli.connection import ClusterAccess
from tierwise.cli.options import Format, option, verb

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.explain.idle_plans import PlansSeen
    from tierwise.port import Objects
    from tierwise.runtime.journal import Journal

__all__ = ["audit"]

_PATIENCE = 120.0


@verb("""
  tierwise audit --kubeconfig ~/.kube/config
  kubectl get nodes,pods,podgroups,hypernodes,queues,elasticquotas -A -o json | tierwise audit -f -
  tierwise audit --journal /var/lib/tierwise/journal
""")
def audit(
    *,
    cluster: ClusterAccess,
    filenames: tuple[str, ...] = option(
        "-f --filename FILE",
        "Manifests instead of a cluster: a YAML or JSON file, a folder of them, or - for standard input.",
    ),
    journal: Path | None = option(
        "--journal DIR",
        "Instead: was anybody evicted in these recorded cycles while idle room might do? A second solver says.",
    ),
    output: Format,
) -> None:
    """Check that what a cluster runs keeps every promise, by counting.

    No node above its allocatable; every gang whole or absent, Volcano's and Koordinator's; hard topology kept; no queue
    above its capability, no elastic quota above its max, nor its non-preemptible pods above its min. The check shares
    no code with the scheduler. Exit status 1 where something is wrong.
    """
    if bool(filenames) + bool(cluster.given) + (journal is not None) > 1:
        raise click.UsageError("give a cluster, manifests or a journal")
    if journal is not None:
        _audit_plans(journal, output)
        return
    from tierwise.audit import audit as judge
    from tierwise.cli.inputs import load, tell_unread

    objects = load(filenames) if filenames else _fetch(cluster)
    if filenames:
        tell_unread(objects)
    findings = judge(objects)
    if output.for_programs:
        from tierwise.cli.screen import print_data

        wire = [{"rule": f.rule, "subject": f.subject, "message": f.text} for f in findings]
        print_data({"objects": len(objects), "findings": wire}, output.output_format)
    else:
        for finding in findings:
            click.echo(str(finding))
        many = f"{len(findings)} broken promises" if len(findings) != 1 else "1 broken promise"
        click.echo(f"{many if findings else 'all promises kept'}, {len(objects)} objects")
    if findings:
        click.get_current_context().exit(1)


def _audit_plans(folder: Path, output: Format) -> None:
    """Every plan of evictions in a journal, looked at by a second solver."""
    from tierwise.cli.progress import show_progress
    from tierwise.explain.second_solver import load_second_solver
    from tierwise.runtime.journal import Journal

    load_second_solver()
    journal = Journal(folder)
    evicting = [cycle.number for cycle in journal.cycles() if any(e.get("effect") == "Evict" for e in cycle.effects)]
    findings: list[Raw] = []
    looked = left_out = 0
    with show_progress("looking at plans", len(evicting)) as progress:
        for done, number in enumerate(evicting):
            progress(done)
            seen, broken = _plans_of(journal, number)
            looked += seen.looked
            left_out += seen.left_out
            findings += broken
    if output.for_programs:
        from tierwise.cli.screen import print_data

        wire: Raw = {"cycles": len(evicting), "plans": looked, "leftOut": left_out, "findings": [*findings]}
        print_data(wire, output.output_format)
    else:
        from tierwise.api.plurals import count

        for finding in findings:
            click.echo(f"{finding['rule']}: {finding['subject']}: {finding['message']}")
        promised = f"{count(len(findings), 'broken promise')}" if findings else "all promises kept"
        beside = f"; {count(left_out, 'plan')} left out" if left_out else ""
        click.echo(f"{promised}, {count(looked, 'plan')} of {count(len(evicting), 'cycle')} looked at{beside}")
    if findings:
        click.get_current_context().exit(1)


def _plans_of(journal: Journal, number: int) -> tuple[PlansSeen, list[Raw]]:
    """The plans of a recorded cycle, and what is wrong with them."""
    from tierwise.explain.idle_plans import PlansSeen, look_at_plans
    from tierwise.runtime.journal import repeat

    recorded = journal.cycle(number)
    repetition = repeat(recorded)
    if not repetition.same:
        text = "repeated, it decides otherwise, so its plans cannot be looked at"
        return PlansSeen(), [{"rule": "not-repeatable", "subject": f"cycle {number}", "message": text}]
    seen = look_at_plans(repetition.snapshot, repetition.report, recorded.scheduler.profile)
    broken: list[Raw] = []
    for job, action in seen.needless:
        text = f"in cycle {number} {action} evicted for it although idle room might have held it"
        broken.append({"rule": "needless-eviction", "subject": job, "message": text})
    return seen, broken


def _fetch(options: ClusterAccess) -> Objects:
    access = options.connect()
    from tierwise.api.errors import InputError
    from tierwise.kube.cluster import KubeCluster

    with KubeCluster(access) as cluster:
        if not cluster.synced(timeout=_PATIENCE):
            raise InputError(f"the API server at {access.server} could not be read in {_PATIENCE:.0f} seconds")
        return cluster.read()
