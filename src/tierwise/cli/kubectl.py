"""`kubectl tierwise`: the verbs about a live cluster, as a plugin of kubectl.

kubectl runs the program `kubectl-tierwise` that it finds on the path. The verbs are those of `tierwise`: without files
they look at the cluster of the kubeconfig, with the right to list; `hold`, `release`, `forgive` and `forget` need that
to patch.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from tierwise import __version__
from tierwise.cli.main import LIVE, VERBS, Verbs

__all__ = ["main", "plugin"]


@click.group(
    cls=Verbs,
    verbs={name: summary for name, summary in VERBS.items() if name in LIVE},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="""\b
Examples:
  kubectl tierwise why team-a/train-worker-0
  kubectl tierwise eta team-a/train
  kubectl tierwise top
  kubectl tierwise topology show --context prod
""",
)
@click.version_option(__version__, "--version", message="%(prog)s %(version)s", prog_name="kubectl tierwise")
def plugin() -> None:
    """Look at gangs and network topology in a live cluster. Only hold, release, forgive and forget change something."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the plugin, and exit."""
    try:
        plugin.main(args=arguments, prog_name="kubectl tierwise")
    except KeyboardInterrupt:
        sys.exit(130)
