"""`tierwise audit`: a cluster, or manifests of one, held against what tierwise promises."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from tierwise.cli import options
from tierwise.cli.connection import access_options, connect

if TYPE_CHECKING:
    from tierwise.port import Objects

__all__ = ["audit"]

_PATIENCE = 120.0


@click.command(
    epilog="""\b
Examples:
  tierwise audit --kubeconfig ~/.kube/config
  kubectl get nodes,pods,podgroups,hypernodes,queues,elasticquotas -A -o json | tierwise audit -f -
"""
)
@access_options
@click.option(
    "-f",
    "--filename",
    "filenames",
    multiple=True,
    type=click.Path(allow_dash=True),
    metavar="FILE",
    help="Manifests instead of a cluster: a YAML or JSON file, a folder of them, or - for standard input.",
)
@options.output
@click.pass_context
def audit(
    ctx: click.Context,
    kubeconfig: str | None,
    in_cluster: bool,
    context: str | None,
    filenames: tuple[str, ...],
    output_format: str,
) -> None:
    """Check that what a cluster runs keeps every promise, by counting.

    No node above its allocatable; every gang whole or absent, Volcano's and Koordinator's; hard topology kept; no queue
    above its capability, no elastic quota above its max, nor its non-preemptible pods above its min. The check shares
    no code with the scheduler. Exit status 1 where something is wrong.
    """
    from tierwise.audit import audit as judge
    from tierwise.cli.inputs import load, tell_unread

    if filenames and (kubeconfig or context or in_cluster):
        raise click.UsageError("give a cluster or manifests, not both")
    objects = load(filenames) if filenames else _fetch(kubeconfig, context, in_cluster=in_cluster)
    if filenames:
        tell_unread(objects)
    findings = judge(objects)
    if output_format == "json":
        from tierwise.cli.screen import print_json

        wire = [{"rule": f.rule, "subject": f.subject, "message": f.text} for f in findings]
        print_json({"objects": len(objects), "findings": wire})
    else:
        for finding in findings:
            click.echo(str(finding))
        many = f"{len(findings)} broken promises" if len(findings) != 1 else "1 broken promise"
        click.echo(f"{many if findings else 'all promises kept'}, {len(objects)} objects")
    if findings:
        ctx.exit(1)


def _fetch(kubeconfig: str | None, context: str | None, *, in_cluster: bool) -> Objects:
    access = connect(kubeconfig, context, in_cluster=in_cluster)
    from tierwise.api.errors import InputError
    from tierwise.kube.cluster import KubeCluster

    with KubeCluster(access) as cluster:
        if not cluster.synced(timeout=_PATIENCE):
            raise InputError(f"the API server at {access.server} could not be read in {_PATIENCE:.0f} seconds")
        return cluster.read()
