"""Verbs that decide where pods go need the solver of integer programs, and say so before they do anything."""

from __future__ import annotations

import sys
import tomllib
from importlib.metadata import version

import click
import pytest
from tests.support.commands import ROOT, run

from tierwise import __version__
from tierwise.cli.main import cli
from tierwise.framework.solver import solver_version

DECIDING = {
    "schedule": ("-f", "-"),
    "explain": ("-f", "-", "default/p"),
    "why": ("-f", "-", "default/p"),
    "eta": ("-f", "-"),
    "what-if": ("-f", "-", "--add-nodes", "2=n"),
    "defrag": ("-f", "-"),
    "queue": ("-f", "-"),
    "drainable": ("-f", "-"),
    "serve": ("-f", "-"),
    "up": (),
    "submit": ("-f", "-"),
    "run": ("--in-cluster",),
    "replay": (".",),
    "sweep": ("-f", "-"),
    "simulate": ("--topology", "synthetic:", "--trace", "synthetic:jobs=2"),
    "bench": (),
}
OTHERS = (
    "nodes ask attention hold release forgive forget windows top validate topology reconcile snapshot plugins config "
    "features crds controllers webhook audit probe advertise-bandwidth completion version"
)
POD = """
{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: tierwise, containers: [{name: a}]}}
"""


@pytest.fixture
def no_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it has no wheel."""
    monkeypatch.setitem(sys.modules, "highspy", None)


def test_every_verb_decides_or_does_not() -> None:
    """A new verb is put into one of the two lists."""
    assert set(cli.list_commands(click.Context(cli))) == {*DECIDING, *OTHERS.split()}


@pytest.mark.parametrize(("verb", "words"), DECIDING.items())
def test_who_decides_refuses_to_run_without(verb: str, words: tuple[str, ...], no_solver: None) -> None:
    """One line and the exit status of what cannot be used, also where no program would have been asked."""
    done = run(verb, *words, stdin=POD)

    assert (2, "") == (done.exit_code, done.stdout)
    assert done.stderr.startswith(
        "tierwise: HiGHS, which decides where gangs with rules between pods may stand, cannot"
    )
    assert 1 == done.stderr.count("\n")


def test_who_does_not_decide_runs(no_solver: None) -> None:
    """Admission, pages of what is, and the help need no solver."""
    assert 0 == run("validate", "-f", "-", stdin=POD).exit_code
    assert 0 == run("features").exit_code
    assert 0 == run("schedule", "--help").exit_code


def test_the_version_names_the_solver(no_solver: None) -> None:
    """What is missing is told behind what is there."""
    done = run("version")

    assert (2, f"tierwise {__version__}\n") == (done.exit_code, done.stdout)
    assert "cannot be loaded" in done.stderr


def test_the_solver_is_pinned() -> None:
    """The one that is installed is the one that is asked for, by its exact version, and calls itself so."""
    asked = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]

    assert f"highspy=={version('highspy')}" in asked
    assert f"HiGHS {version('highspy')}" == solver_version()
    assert f"tierwise {__version__}\n{solver_version()}\n" == run("version").stdout
