"""`tierwise audit`: a cluster, or manifests of one, held against what tierwise promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli.connection import ClusterAccess
from tierwise.cli.options import Format, option, verb

if TYPE_CHECKING:
    from tierwise.port import Objects

__all__ = ["audit"]

_PATIENCE = 120.0


@verb("""
  tierwise audit --kubeconfig ~/.kube/config
  kubectl get nodes,pods,podgroups,hypernodes,queues,elasticquotas -A -o json | tierwise audit -f -
""")
def audit(
    *,
    cluster: ClusterAccess,
    filenames: tuple[str, ...] = option(
        "-f --filename FILE",
        "Manifests instead of a cluster: a YAML or JSON file, a folder of them, or - for standard input.",
    ),
    output: Format,
) -> None:
    """Check that what a cluster runs keeps every promise, by counting.

    No node above its allocatable; every gang whole or absent, Volcano's and Koordinator's; hard topology kept; no queue
    above its capability, no elastic quota above its max, nor its non-preemptible pods above its min. The check shares
    no code with the scheduler. Exit status 1 where something is wrong.
    """
    from tierwise.audit import audit as judge
    from tierwise.cli.inputs import load, tell_unread

    if filenames and cluster.given:
        raise click.UsageError("give a cluster or manifests, not both")
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


def _fetch(options: ClusterAccess) -> Objects:
    access = options.connect()
    from tierwise.api.errors import InputError
    from tierwise.kube.cluster import KubeCluster

    with KubeCluster(access) as cluster:
        if not cluster.synced(timeout=_PATIENCE):
            raise InputError(f"the API server at {access.server} could not be read in {_PATIENCE:.0f} seconds")
        return cluster.read()
