"""The image: every verb that is deployed, started from its root file system as a kubelet would, and a gang is placed.

`make image` builds it and names its root in TIERWISE_IMAGE_ROOT; skipped otherwise. As root on Linux each process has a
mount namespace of its own, where the root is read-only, and user, environment and entry point of the image. Arguments
are those of the manifests, and the account is mounted where pods have it.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests.e2e.accounts import NAMESPACE, NODES
from tests.e2e.api import Json
from tests.e2e.world import World, job, task
from tests.support.ports import free_port

ROOT = Path(__file__).parents[2]
KUSTOMIZE = ROOT / "deploy/kustomize"
IMAGE = os.environ.get("TIERWISE_IMAGE_ROOT", "")
ACCOUNT = "run/secrets/kubernetes.io/serviceaccount"  # /var/run leads there
HARD_RACK: Json = {"mode": "hard", "highestTierAllowed": 1}

pytestmark = pytest.mark.skipif(not IMAGE, reason="no image: TIERWISE_IMAGE_ROOT is not set (make image)")

# A bind of its own makes the root read-only for this process alone; what a kubelet mounts is mounted before that.
CONFINED = """\
set -e
mount --bind {root} {root}
mount --bind {account} {root}/{path}
mount --bind {scratch} {root}/mnt
mount --rbind /proc {root}/proc
mount --rbind /dev {root}/dev
mount -o remount,bind,ro {root}
exec chroot --userspec={user} {root} /usr/bin/env -i {environment} {entry} "$@"
"""


class Image:
    """What the Containerfile says of the program, and the folder with its files."""

    def __init__(self, world: World, folder: Path) -> None:
        lines = (ROOT / "deploy/Containerfile").read_text().rpartition("\nFROM ")[2].splitlines()
        said = {line.partition(" ")[0]: line.partition(" ")[2] for line in lines}
        self._environment = ["PATH=/usr/local/bin:/usr/bin:/bin", *shlex.split(said["ENV"])]
        self._user, self._entry = said["USER"], yaml.safe_load(said["ENTRYPOINT"])
        self._world, self._folder = world, folder
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, words: list[str], account: str, namespace: str = NAMESPACE, **more: str) -> subprocess.Popen[bytes]:
        """A container: arguments, and the service account whose token it gets."""
        number = len(self.processes)
        mounted = self._folder / f"account-{number}"
        mounted.mkdir(mode=0o755)
        plane = self._world.plane
        (mounted / "token").write_text(self._world.accounts.token(account, namespace))
        (mounted / "ca.crt").write_bytes((plane.folder / "certs/apiserver.crt").read_bytes())
        (mounted / "namespace").write_text(namespace)
        scratch = self._folder / f"scratch-{number}"
        scratch.mkdir(exist_ok=True)
        scratch.chmod(0o777)
        service = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(plane.port)}
        variables = [*self._environment, *(f"{key}={value}" for key, value in (service | more).items())]
        for place in (ACCOUNT, "mnt", "proc", "dev"):
            (Path(IMAGE) / place).mkdir(parents=True, exist_ok=True)
        script = CONFINED.format(
            root=shlex.quote(IMAGE),
            account=shlex.quote(str(mounted)),
            scratch=shlex.quote(str(scratch)),
            path=ACCOUNT,
            user=self._user,
            environment=shlex.join(variables),
            entry=shlex.join(self._entry),
        )
        command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *words]
        with (self._folder / f"image-{words[0]}-{number}.log").open("wb") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        self.processes.append(process)
        return process

    def run(self, *words: str) -> str:
        """What a verb that needs no cluster prints."""
        process = self.start(list(words), "tierwise-scheduler")
        assert 0 == process.wait(timeout=120), self.said()
        return (self._folder / f"image-{words[0]}-{len(self.processes) - 1}.log").read_text()

    def said(self) -> str:
        return "\n".join(f"{log.name}\n{log.read_text()}" for log in sorted(self._folder.glob("image-*.log")))

    def close(self) -> None:
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            process.wait(timeout=60)


@pytest.fixture
def image(world: World, tmp_path: Path) -> Iterator[Image]:
    """The image on a cluster."""
    tmp_path.chmod(0o755)
    image = Image(world, tmp_path)
    try:
        yield image
    finally:
        image.close()


def _arguments(file: str, **places: str) -> list[str]:
    """A container's arguments as the manifests have them, with ports of this machine."""
    (manifest,) = yaml.safe_load_all((KUSTOMIZE / file).read_text())
    (container,) = manifest["spec"]["template"]["spec"]["containers"]
    return [places.get(word, word) for word in container["args"]]


def _ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def test_the_laboratory_is_left_out() -> None:
    """What schedules is there, and what replays traces and measures is not."""
    assert ["tierwise"] == sorted(path.name for path in Path(IMAGE, "opt/tierwise").glob("tierwise*"))


def test_it_runs_as_a_plain_user_and_writes_nothing(image: Image, tmp_path: Path) -> None:
    """Version, licences and SBOM are in it; nothing of its root can be written."""
    assert "tierwise " in image.run("version")
    look = "id -u; for at in / /tmp /opt/tierwise; do touch $at/x; done"
    confine = f"mount --bind {IMAGE} {IMAGE} && mount -o remount,bind,ro {IMAGE}"
    script = f"{confine} && exec chroot --userspec=65532:65532 {IMAGE} sh -c '{look}'"
    probe = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True)
    assert "65532\n" == probe.stdout
    assert 3 == probe.stderr.count("cannot touch")
    inside = Path(IMAGE) / "opt/tierwise"
    assert "| tierwise | " in (inside / "sbom/LICENSES.md").read_text()
    listed = json.loads((inside / "sbom/sbom.cdx.json").read_text())
    assert ("CycloneDX", "1.6") == (listed["bomFormat"], listed["specVersion"])
    unknown = [c["name"] for c in listed["components"] if "not stated" in json.dumps(c["licenses"])]
    libraries = [c["name"] for c in listed["components"] if "pkg:pypi" in c.get("purl", "")]
    assert {"aiohttp", "numpy"} <= set(libraries)
    assert not set(unknown) & set(libraries)
    assert len(unknown) < 10
    assert not list(inside.glob("pip*"))


def test_every_component_starts_and_a_gang_is_placed(image: Image, world: World, tmp_path: Path) -> None:
    """Scheduler, controllers, webhook and probe, each with its own account, as they are deployed."""
    world.accounts.install("node-programs/namespace.yaml", "node-programs/rbac/probe.yaml")
    world.racks(racks=2, size=4)
    scheduler, controllers, webhook = free_port(), free_port(), free_port()
    begun = time.monotonic()
    configuration = (KUSTOMIZE / "base/scheduler.conf").read_text()
    places = {"0.0.0.0:8080": f"127.0.0.1:{scheduler}", "/etc/tierwise/scheduler.conf": "/mnt/scheduler.conf"}
    (tmp_path / "scratch-0").mkdir(mode=0o755)
    (tmp_path / "scratch-0/scheduler.conf").write_text(configuration)
    image.start(_arguments("base/scheduler.yaml", **places), "tierwise-scheduler")
    world.until(lambda: _ready(scheduler))
    print(f"the scheduler is ready {time.monotonic() - begun:.1f} seconds after its start")
    places = {"0.0.0.0:8080": f"127.0.0.1:{controllers}"}
    image.start(_arguments("base/controllers.yaml", **places), "tierwise-controllers")
    places = {"0.0.0.0:8080": f"127.0.0.1:{webhook}", "/run/tls": "/mnt"}
    words = [*_arguments("base/webhook.yaml", **places), "--port", str(free_port()), "--host", "127.0.0.1"]
    image.start(words, "tierwise-webhook")
    world.until(lambda: _ready(controllers) and _ready(webhook))
    words = _arguments("node-programs/probe.yaml", **{"$(HOST_IP)": "127.0.0.1"})
    probe = image.start([*words, "--port", str(free_port())], "tierwise-probe", NODES, NODE_NAME="n0")
    world.api.create(job("train", task("worker", 4), networkTopology=HARD_RACK))
    world.until(lambda: len(world.running("train")) == 4)

    assert [4] == list(world.racks_of("train", 4).values())
    assert all(process.poll() is None for process in image.processes), image.said()
    assert probe.poll() is None
    assert not re.search(r"forbidden|Traceback|[Rr]ead-only file system", image.said()), image.said()
    assert [] == world.audit()
