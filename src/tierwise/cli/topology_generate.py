"""`tierwise topology generate`: a site's description of its network as hyperNodes, or in another format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from tierwise.api.errors import InputError
from tierwise.cli import options, topology_source

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.cli.topology_source import Found, Wish

__all__ = ["generate"]

_FORMATS: Final = ("hypernodes", "slurm", "slurm-yaml", "topograph")


@click.command(
    epilog="""\b
Examples:
  tierwise topology generate --from slurm:/etc/slurm | kubectl apply -f -
  tierwise topology generate --from csv:hosts.csv --host-column host --tiers rack,spine
  kubectl get nodes -o yaml | tierwise topology generate --from topograph:-
  tierwise topology generate --from hypernodes:cluster.yaml --to slurm > topology.conf
"""
)
@options.optional_filenames
@topology_source.options
@click.option(
    "--to", "target", type=click.Choice(_FORMATS), default="hypernodes", help="What to print.  [default: hypernodes]"
)
@click.option(
    "-o",
    "--output",
    "output_format",
    type=click.Choice(["yaml", "json"]),
    default="yaml",
    help="How to print manifests.  [default: yaml]",
)
def generate(filenames: tuple[str, ...], target: str, output_format: str, wish: Wish) -> None:
    """Print the hyperNodes of a network as its site describes it.

    The same input gives the same names and the same bytes. Warnings go to standard error; with an error nothing is
    printed, because half a tree is worse than the old one.
    """
    found, _ = topology_source.find(filenames, wish)
    if target.startswith("slurm"):
        if output_format == "json":
            raise click.UsageError(f"--to {target} is not JSON")
        click.echo(_summary(found) + _slurm(found, target), nl=False)
        return
    manifests = found.hypernodes if target == "hypernodes" else _patches(found)
    if output_format == "json":
        from tierwise.cli.screen import print_json

        print_json({"apiVersion": "v1", "kind": "List", "items": manifests})
    else:
        click.echo(_summary(found) + _yaml(manifests), nl=False)


def _slurm(found: Found, target: str) -> str:
    from tierwise.discovery import slurm_conf, slurm_yaml

    try:
        return slurm_conf.write(found.tree) if target == "slurm" else slurm_yaml.write(found.tree)
    except ValueError as error:
        raise InputError(str(error), file=found.origin) from None


def _patches(found: Found) -> list[Raw]:
    """Nodes with nothing but their labels, for `kubectl apply --server-side`."""
    from tierwise.discovery.topograph import labels

    return [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node, "labels": given}}
        for node, given in labels(found.tree).items()
    ]


def _summary(found: Found) -> str:
    """A comment at the head: how much there is of each tier."""
    tree = found.tree
    counts = {tier: sum(path[-1].tier == tier for path in tree) for tier in tree.tiers}
    told = [f"{number} of tier {tier} {tree.tier_names.get(tier, '')}".rstrip() for tier, number in counts.items()]
    return f"# {found.origin}: {len(tree.places)} nodes in {len(tree)} domains{': ' if told else ''}{', '.join(told)}\n"


def _yaml(manifests: list[Raw]) -> str:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return "".join(f"---\n{yaml.dump(raw, Dumper=dumper, sort_keys=False, width=1 << 20)}" for raw in manifests)
