"""Verbs of other packages, the laboratory's among them, are found by their entry points."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.support.commands import EXAMPLES, ROOT, run

from tierwise.cli.kubectl import plugin
from tierwise.cli.main import VERBS, cli
from tierwise_lab.verbs import VERBS as LABORATORY

_SAYS_SO = """
import click
VERBS = {"greet": ("acme.verbs:greet", "Greet somebody."), "version": ("acme.verbs:greet", "Not ours.")}

@click.command()
@click.argument("name")
def greet(name: str) -> None:
    click.echo(f"hello {name}")
"""


def _site(folder: Path, module: str, entry: str) -> Path:
    """A folder of packages with one that names its verbs."""
    (folder / "acme").mkdir()
    (folder / "acme" / "__init__.py").touch()
    (folder / "acme" / "verbs.py").write_text(module)
    info = folder / "acme-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tierwise.verbs]\nacme = {entry}\n")
    return folder


def _tierwise(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, (site, ROOT / "src")))
    command = (sys.executable, "-m", "tierwise", *words)
    return subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)


def test_the_laboratory_adds_its_verbs() -> None:
    """They are listed with their lines, and none of them is a verb of the scheduler itself."""
    text = " ".join(run("--help").stdout.split())

    assert {"simulate", "sweep", "bench"} == set(LABORATORY)
    assert LABORATORY.keys() <= set(cli.list_commands(click.Context(cli)))
    assert not LABORATORY.keys() & VERBS.keys()
    assert [] == [name for name, (_, line) in LABORATORY.items() if f"{name} {line}" not in text]


def test_a_package_adds_a_verb(tmp_path: Path) -> None:
    """It is listed, runs and is suggested; a name that tierwise has stays its own."""
    site = _site(tmp_path, _SAYS_SO, "acme.verbs:VERBS")

    assert "hello you\n" == _tierwise(site, "greet", "you").stdout
    assert "Greet somebody." in _tierwise(site, "--help").stdout
    assert "did you mean greet?" in _tierwise(site, "gret", "you").stderr
    assert _tierwise(site, "version").stdout.startswith("tierwise ")


@pytest.mark.parametrize(
    ("module", "entry"),
    [("raise ValueError('broken')", "acme.verbs:VERBS"), ("", "acme.verbs:VERBS"), ("VERBS = 3", "acme.verbs:VERBS")],
    ids=["raises", "missing", "no mapping"],
)
def test_a_broken_package_ends_no_other_verb(tmp_path: Path, module: str, entry: str) -> None:
    """One line names it, where verbs are listed or looked for; ours are asked for without it."""
    site = _site(tmp_path, module, entry)

    listed, ours = _tierwise(site, "--help"), _tierwise(site, "version")

    assert (0, 0) == (listed.returncode, ours.returncode)
    assert listed.stderr.startswith("tierwise: warning: verbs of acme cannot be used: ")
    assert 1 == listed.stderr.count("\n")
    assert "simulate" in listed.stdout
    assert "" == ours.stderr


def test_kubectl_lists_none_of_them() -> None:
    """The plugin of kubectl has the verbs about a live cluster and no others."""
    assert not LABORATORY.keys() & set(plugin.list_commands(click.Context(plugin)))
    assert 2 == CliRunner().invoke(plugin, ["bench"]).exit_code


def test_the_scheduler_works_without_the_laboratory() -> None:
    """As in an image, which does not have it."""
    script = "import sys; sys.modules['tierwise_lab'] = None; from tierwise.cli.main import main; main(sys.argv[1:])"
    words = (sys.executable, "-c", script, "schedule", "-f", str(EXAMPLES / "01-llm-training"))
    done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert (0, "") == (done.returncode, done.stderr)
    assert "pods bound" in done.stdout


def test_the_image_copies_the_scheduler_alone() -> None:
    """Nothing of the laboratory gets into the context of the build or into the image."""
    lines = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [line.split()[1] for line in lines if line.startswith("COPY src")]
    context = (ROOT / "deploy" / "Containerfile.dockerignore").read_text(encoding="utf-8").splitlines()

    assert ["src/tierwise"] == copied
    assert [] == [line for line in context if line in ("!src", "!src/") or "tierwise_lab" in line]
