"""What the documentation says of `tierwise simulate` is so: every key of its JSON, the default profile in a file."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tierwise.cli.inputs import profile_of
from tierwise.cli.main import cli
from tierwise.config.profile import DEFAULT

DOCS = Path(__file__).parents[3] / "docs"
OPENB = (
    "sn,cpu_milli,memory_mib,gpu,model\nn,8000,4096,2,A\n",
    "cpu_milli,memory_mib,num_gpu,gpu_milli\n1000,16,1,500\n",
)


def keys(found: object) -> Iterator[str]:
    """Every key at any depth, sizes of gangs and numbers of tiers left out."""
    for key, value in found.items() if isinstance(found, dict) else ():
        if not key.isdigit():
            yield key
        yield from keys(value)
    for item in found if isinstance(found, list) else ():
        yield from keys(item)


@pytest.mark.parametrize("shared", [False, True], ids=["jobs", "shared GPUs"])
def test_every_key_of_the_json_is_described(shared: bool, tmp_path: Path) -> None:
    """At any depth, in the section about simulate."""
    words = ["--topology", "synthetic:hosts=1", "--trace", "synthetic:jobs=9,queues=2,largest=32", "--queues", "equal"]
    if shared:
        nodes, pods = tmp_path / "nodes.csv", tmp_path / "pods.csv"
        nodes.write_text(OPENB[0])
        pods.write_text(OPENB[1])
        words = ["--topology", str(nodes), "--trace", str(pods)]
    told = json.loads(CliRunner().invoke(cli, ["simulate", *words, "-o", "json"]).stdout)
    section = re.split(r"^## ", (DOCS / "reference" / "json.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    described = set(re.findall(r"[`.](\w+)(?:\[\])?`", next(s for s in section if s.startswith("simulate"))))

    assert len(set(keys(told))) > 10
    assert set() == set(keys(told)) - described


def test_the_default_profile_in_a_file_is_the_default_profile(tmp_path: Path) -> None:
    """Whoever adds plugins to what the guide shows compares with the default profile."""
    page = (DOCS / "guides" / "simulation.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```yaml\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "default.yaml").write_text(next(b for b in blocks if "backfill" in b))

    assert DEFAULT == profile_of(str(tmp_path / "default.yaml"))
