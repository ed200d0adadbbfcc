"""tools/control_plane: what it takes as it is, and what it says where something is missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[3] / "tools/control_plane"

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not on this machine")


def _asked(*words: str, cache: Path, assets: Path | None = None) -> tuple[int, str, str]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(cache), "TIERWISE_CACHE": str(cache)}
    if assets is not None:
        variables["KUBEBUILDER_ASSETS"] = str(assets)
    done = subprocess.run([TOOL, "--no-build", *words], capture_output=True, text=True, env=variables)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def _programs(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch(mode=0o755)
    return folder


def test_assets_are_taken_as_they_are(tmp_path: Path) -> None:
    """A further program is asked for by name, and missed by name."""
    assets = _programs(tmp_path / "assets", "etcd", "kube-apiserver")
    plain = _asked(cache=tmp_path, assets=assets)
    lacking = _asked("--with", "kube-scheduler", cache=tmp_path, assets=assets)
    complete = _asked(
        "--with", "kube-scheduler", cache=tmp_path, assets=_programs(tmp_path / "assets", "kube-scheduler")
    )

    assert (0, str(assets), "") == plain == complete
    assert (3, "", "no control plane: KUBEBUILDER_ASSETS lacks kube-scheduler") == lacking


def test_what_was_built_is_found_in_the_cache(tmp_path: Path) -> None:
    """And where it was not, and must not be, that is said in one line."""
    said = _asked(cache=tmp_path)
    _programs(tmp_path / "control-plane/kubernetes-1.37.1-etcd-3.6.16", "etcd", "kube-apiserver")

    assert (3, "") == said[:2]
    assert said[2].endswith("KUBEBUILDER_ASSETS is not set, and nobody has built etcd and kube-apiserver")
    assert 0 == _asked(cache=tmp_path)[0]
    assert 3 == _asked("--with", "kube-scheduler", cache=tmp_path)[0]


def test_what_no_version_changes_is_taken_from_another(tmp_path: Path) -> None:
    """Helm is found beside every control plane once it was built beside one; kube-scheduler has a version."""
    other = _programs(tmp_path / "control-plane/kubernetes-1.2.3-etcd-3.6.16", "helm", "kube-scheduler")
    before = _asked("--with", "helm", cache=tmp_path)
    _programs(tmp_path / "control-plane/kubernetes-1.37.1-etcd-3.6.16", "etcd", "kube-apiserver")

    assert (3, {"helm", "kube-scheduler"}) == (before[0], {file.name for file in other.iterdir()})
    assert 0 == _asked("--with", "helm", cache=tmp_path)[0]
    assert 3 == _asked("--with", "kube-scheduler", cache=tmp_path)[0]


def test_a_minor_version_stands_for_its_patch(tmp_path: Path) -> None:
    """The oldest and the newest of the list are found in the cache by their first two numbers, and by all of them."""
    listed = subprocess.run([TOOL, "--versions"], capture_output=True, text=True, check=True).stdout.split()
    variables = {"PATH": os.environ["PATH"], "TIERWISE_CACHE": str(tmp_path), "ETCD_VERSION": "1.0"}
    for version in (listed[0], listed[-1]):
        folder = _programs(tmp_path / f"control-plane/kubernetes-{version}-etcd-1.0", "etcd", "kube-apiserver")
        for asked in (version, version.rpartition(".")[0]):
            given = variables | {"KUBERNETES_VERSION": asked}
            done = subprocess.run([TOOL, "--no-build"], capture_output=True, text=True, env=given)
            assert (0, f"{folder}\n") == (done.returncode, done.stdout)
