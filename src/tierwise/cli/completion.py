"""`tierwise completion`: the script that lets a shell complete verbs, options and files."""

from __future__ import annotations

import click

from tierwise.cli.options import argument, verb

__all__ = ["completion"]


@verb("""
  eval "$(tierwise completion bash)"                              # in ~/.bashrc
  eval "$(tierwise completion zsh)"                               # in ~/.zshrc
  tierwise completion fish > ~/.config/fish/completions/tierwise.fish
""")
def completion(*, shell: str = argument(choices=("bash", "zsh", "fish"))) -> None:
    """Print the completion script of a shell."""
    from click.shell_completion import get_completion_class

    from tierwise.cli.main import cli

    kind = get_completion_class(shell)
    assert kind is not None  # the choices are those that click has
    click.echo(kind(cli, {}, "tierwise", "_TIERWISE_COMPLETE").source())
