#!/usr/bin/env python3
"""Type every line that a newcomer is shown, with the tierwise of one environment, and say which did not work.

    tools/door.py [--match TEXT] BIN

BIN is the folder of the environment's programs, as `make dist` has it from the built wheel. The lines are those of
every `--help`, of README and of the guides; one that is shown as `kubectl tierwise VERB` is typed as `tierwise VERB` as
well. They are run by a shell in a folder with the files that they name, beside `tierwise up` with the objects that they
name. A line that goes on until it is stopped must be alive after some seconds, and end when it is interrupted.

Where there is no kubectl, a script invokes the plugin as kubectl does, and lines that need kubectl for more are told as
not run, like those of `NOT_HERE`. The exit status is 1 where a line failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs" / "guides").glob("*.md")))
LONGEST = 120
"""Seconds that a line may take."""
AT_ONCE = 4
ALIVE = 8
"""Seconds after which a line that goes on must still run."""

NOT_HERE = {
    r"dask://": "needs a cluster of dask",
    r"--png ": "needs matplotlib",
    r"ufm": "needs a fabric manager",
    r"\bhelm\b": "`make chart` runs helm",
    r"\bpodman\b|\bpip install\b": "builds or installs something",
    r"-k deploy/|secret generic|--from-file|-n tierwise\b|port-forward|-n volcano-system|--categories|get tierwise": (
        "is about an installation: `make e2e` has one"
    ),
    r"--traces ": "needs the extra `tracing`",
    r"tierwise ask \w": "asks a scheduler with --answers: `make e2e` has one",
    r"audit --journal": "needs the extra `audit`: tests/unit/cli/test_audit_plans.py types it",
    r"\.tierwise\\\.io/expected-start": "is about a mark that a running scheduler writes",
    r"\btierwise bench\b": "measures for minutes",
    r"--preset aws": "needs labels that a provider writes: tests/unit/discovery has them",
    r"advertise-bandwidth --node n1 --once --print$": "needs an interface that says its speed",
    r"openb_": "needs a published trace: docs/guides/simulation.md says where it is",
    r"kube\.yaml|full\.yaml|victims\.conf|maintenance|wrong\.conf|write-a-plugin": "tests/examples types that guide",
}
"""Lines that are not run, by a pattern, and why."""

SHORTER = (
    (r"--in-cluster", "--kubeconfig ~/.kube/config"),
    (r"scontrol show reservation", "cat reservations.txt"),
    (r"jobs=\d+", "jobs=12"),
    (r"--jobs 3000", "--jobs 12"),
    (r"--calibrate-eta 60", "--calibrate-eta 2"),
    (r"examples/19-sweep/\w+\.yaml", "sweep.yaml"),
    (r'eval "\$\(tierwise completion zsh\)"', "tierwise completion zsh"),
    (r" --listen 127\.0\.0\.1:9000| --port 9443", ""),
)
"""What is typed otherwise than it is shown, so that it is done in seconds, on this machine, by anybody."""

GOES_ON = re.compile(
    r"tierwise (serve|up|run|controllers|webhook)\b|tierwise (probe|advertise-bandwidth)\b(?!.*--once)|--serve\b"
)
ANSWERS = {
    r"topology diff": (0, 1),
    r"\| diff ": (0, 1),
    r"defrag .*--execute": (0, 1),
    r"defrag --resume": (2,),  # no execution is under way
}
"""Lines that may answer no: their exit status says so."""
VERBS_OF_PLUGIN = re.compile(r"kubectl tierwise ")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_SAVED = re.compile(r"```yaml\n((?:(?!```).)*)```\n+Save it as `([\w.]+)`", re.DOTALL)

_HELPS = """
import click, json
from tierwise.cli.main import cli
from tierwise.cli.kubectl import plugin
found = []
def walk(command, path):
    for line in (command.epilog or "").replace("\\b", "").replace("\\\\\\n", " ").splitlines():
        if line.strip() and line.strip() != "Examples:":
            found.append([f"{path} --help", " ".join(line.split())])
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            walk(command.get_command(context, name), f"{path} {name}")
walk(cli, "tierwise")
for line in plugin.epilog.replace("\\b", "").splitlines():
    if line.strip() and line.strip() != "Examples:":
        found.append(["kubectl tierwise --help", line.strip()])
print(json.dumps(found))
"""


@dataclass(frozen=True)
class Line:
    """One line to type, and where it is shown."""

    where: str
    text: str
    saved: tuple[tuple[str, str], ...] = ()  # files that the page tells its reader to save


def main() -> None:
    """Collect, type, count."""
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("bin", type=Path)
    options.add_argument("--match", default="", help="only lines with this text")
    asked = options.parse_args()
    failed = typed(asked.bin.absolute(), asked.match)
    for told in failed:
        print(told, file=sys.stderr)
    sys.exit(1 if failed else 0)


def typed(programs: Path, match: str = "") -> list[str]:
    """What is said of the lines that did not work; prints how many there were."""
    lines = [line for line in forms(shown(programs)) if match in line.text]
    counts: Counter[str] = Counter()
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Place(Path(folder), programs)
        with place.cluster():
            runnable = []
            for line in lines:
                why = place.why_not(line.text)
                if why:
                    counts[f"not run, because it {why}"] += 1
                else:
                    runnable.append(line)
            with ThreadPoolExecutor(AT_ONCE) as pool:  # many of them wait most of the time
                for line, said in zip(runnable, pool.map(place.type, runnable), strict=True):
                    counts["failed" if said else "worked"] += 1
                    failed += [f"{line.where}: {line.text}\n    {said}"] if said else []
    print(f"== the door: {counts.pop('worked', 0)} of {len(lines)} lines work")
    for what, number in sorted(counts.items()):
        print(f"   {number} {what}")
    return failed


# Which lines there are.


def shown(programs: Path) -> Iterator[Line]:
    """Every line of help, README and guides, each once for its place."""
    told = subprocess.run([programs / "python", "-c", _HELPS], capture_output=True, text=True, check=True)
    for where, text in json.loads(told.stdout):
        yield Line(where, text)
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        saved = tuple((name, body) for body, name in _SAVED.findall(text))
        for language, body in _FENCE.findall(text):
            if language not in ("console", "sh", "bash"):
                continue
            for line in re.sub(r"\\\n\s*", " ", body).splitlines():
                if language != "console" or line.startswith("$ "):
                    command = line.removeprefix("$ ").partition("   #")[0].strip()
                    if "tierwise" in command:
                        yield Line(str(page.relative_to(ROOT)), command, saved)


def forms(lines: Iterator[Line]) -> Iterator[Line]:
    """Each line as it is shown, and what is shown of the plugin as `tierwise` too."""
    seen = set()
    for line in lines:
        texts = [line.text]
        if VERBS_OF_PLUGIN.search(line.text):
            texts.append(VERBS_OF_PLUGIN.sub("tierwise ", line.text))
        for text in texts:
            if (text, line.saved) not in seen:
                seen.add((text, line.saved))
                yield Line(line.where, text, line.saved)


# Where they are typed.


class Place:
    """A home with the files that the lines name, and a cluster with the objects that they name."""

    def __init__(self, home: Path, programs: Path) -> None:
        self._home = home
        shims = home / "shims"
        shims.mkdir()
        self._kubectl = shutil.which("kubectl")
        if self._kubectl is None:
            shim = shims / "kubectl"
            shim.write_text('#!/bin/sh\n[ "$1" = tierwise ] && shift && exec kubectl-tierwise "$@"\nexit 127\n')
            shim.chmod(0o755)
        self._has_jq = shutil.which("jq") is not None
        dropped = ("KUBECONFIG", "PYTHONPATH", "VIRTUAL_ENV", "TIERWISE_DEBUG")
        env = {key: value for key, value in os.environ.items() if key not in dropped}
        path = os.pathsep.join([str(shims), str(programs), env.get("PATH", "")])
        self._env = {**env, "PATH": path, "HOME": str(home), "COLUMNS": "100"}
        self._files = home / "files"
        self._files.mkdir()
        _write_files(self._files, home)
        for name in ("examples", "deploy"):
            (self._files / name).symlink_to(ROOT / name)
        subjects = "-subj /CN=localhost -keyout ~/run/tls/tls.key -out ~/run/tls/tls.crt"
        self._shell(f"openssl req -x509 -newkey rsa:2048 -nodes -days 2 {subjects} 2>/dev/null")
        self._run_ahead()

    def _run_ahead(self) -> None:
        """What earlier lines leave behind: a journal with the cycle that the lines name, a tree, an answer."""
        journal = "~/var/lib/tierwise/journal"
        self._shell("tierwise topology export -f cluster.yaml > topology.json")
        self._shell("tierwise schedule -f cluster.jsonl --config volcano-scheduler.conf -o json > before.json")
        self._shell(f"tierwise submit -f cluster.yaml -f waiting.yaml --until 10m --journal {journal} >/dev/null")
        cycles = json.loads(self._shell(f"tierwise replay {journal} --all -o json"))["cycles"]
        asked = (f"tierwise replay {journal} --at {each['time']} --pod team-a/train-0" for each in cycles)
        cycle = next(each for each, text in zip(cycles, asked, strict=True) if not self._run(text).returncode)
        self._cycle, self._time = str(cycle["cycle"]), cycle["time"]

    def _run(self, text: str) -> subprocess.CompletedProcess[str]:
        command = ["bash", "-c", text]
        return subprocess.run(command, cwd=self._files, env=self._env, capture_output=True, text=True, check=False)

    def _shell(self, text: str) -> str:
        done = self._run(text)
        if done.returncode:
            raise SystemExit(f"{text}: {done.stdout}{done.stderr}")
        return done.stdout

    def cluster(self) -> _Up:
        """`tierwise up` with the files, and a kubeconfig at home that knows it as `prod`."""
        return _Up(self._files, self._home, self._env)

    def why_not(self, text: str) -> str:
        """Why a line is not run here; empty where it is."""
        found = next((why for pattern, why in NOT_HERE.items() if re.search(pattern, text)), "")
        if not found and self._kubectl is None and re.search(r"kubectl (?!tierwise )", text):
            found = "needs a kubectl"
        return found or ("needs jq" if "jq" in text.split() and not self._has_jq else "")

    def type(self, line: Line) -> str:
        """What went wrong; empty where nothing did."""
        text = line.text
        own = (
            (r"/etc/slurm|/run/tls|/host/sys|/var/lib/tierwise/journal", rf"{self._home}\g<0>"),
            (r"\b4711\b", self._cycle),
            (r"2026-11-15T02:40:00Z", self._time),
            (r"hosts\.csv (?=.*--host-column sn)", "table.csv "),
        )
        for pattern, instead in (*SHORTER, *own):
            text = re.sub(pattern, instead, text)
        folder = Path(tempfile.mkdtemp(dir=self._home))
        for file in self._files.iterdir():
            (folder / file.name).symlink_to(file)
        if re.search(r"-f cluster\.yaml(?!.* -f )", text):  # a whole state, jobs included
            (folder / "cluster.yaml").unlink()
            (folder / "cluster.yaml").symlink_to(self._files / "whole.yaml")
        for name, body in line.saved:
            (folder / name).unlink(missing_ok=True)
            (folder / name).write_text(body, encoding="utf-8")
        # A redirection must not write through a link into what other lines read.
        for target in re.findall(r"> *([\w.]+)|-o ([\w.]+\.jsonl)|--kubeconfig (up\.kubeconfig)", text):
            if "up " in text or not target[2]:
                (folder / "".join(target)).unlink(missing_ok=True)
        lasting = GOES_ON.search(text) is not None
        if lasting and re.search(r"tierwise (up|serve)\b|--serve\b", text):
            text += f" --listen 127.0.0.1:{_port()}"
        if re.search(r"tierwise probe .*--answer|tierwise webhook ", text):
            text += f" --port {_port()}"
        process = subprocess.Popen(
            ["bash", "-o", "pipefail", "-c", f"exec {text}" if lasting and "|" not in text else text],
            cwd=folder,
            env=self._env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=ALIVE if lasting else LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGINT)
            try:
                said, _ = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                said, _ = process.communicate()
                return f"does not end when it is interrupted: {_last(said)}"
            ended = f"exit status {process.returncode} when it is interrupted: {_last(said)}"
            if not lasting:
                return f"is not done after {LONGEST} s: {_last(said)}"
            return "" if process.returncode in (0, 130, -signal.SIGINT) else ended
        if lasting:
            return f"ends by itself, with status {process.returncode}: {_last(said)}"
        allowed = next((codes for pattern, codes in ANSWERS.items() if re.search(pattern, text)), (0,))
        return "" if process.returncode in allowed else f"exit status {process.returncode}: {_last(said)}"


class _Up:
    """The cluster, for as long as lines are typed."""

    def __init__(self, files: Path, home: Path, env: dict[str, str]) -> None:
        self._files, self._home, self._env = files, home, env

    def __enter__(self) -> None:
        config = self._home / ".kube" / "config"
        config.parent.mkdir()
        words = ["-f", "cluster.yaml", "-f", "team.yaml", "-f", "maps.yaml", "--kubeconfig", str(config)]
        words += ["--listen", f"127.0.0.1:{_port()}"]
        self._process = subprocess.Popen(
            ["tierwise", "up", *words], cwd=self._files, env=self._env, stderr=subprocess.PIPE, text=True
        )
        assert self._process.stderr is not None
        said = ""
        while "is open" not in said:
            line = self._process.stderr.readline()
            if not line:
                raise SystemExit(f"tierwise up: {said}")
            said += line
        prod = "contexts:\n- {name: prod, context: {cluster: tierwise, user: tierwise}}\n"
        config.write_text(config.read_text().replace("contexts:\n", prod))
        shutil.copyfile(config, self._files / "up.kubeconfig")

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGINT)
        self._process.communicate()


def _port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _last(said: str) -> str:
    return " / ".join(said.strip().splitlines()[-3:])


# The files that they name. JSON is YAML.


def _write_files(folder: Path, home: Path) -> None:
    cluster, team, job = _cluster(), _team(), _job()

    def write(name: str, objects: list[Any]) -> None:
        (folder / name).parent.mkdir(exist_ok=True, parents=True)
        lines = [json.dumps(each) for each in objects]
        whole = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        text = whole if name.endswith(".json") else ("\n" if name.endswith("jsonl") else "\n---\n").join(lines)
        (folder / name).write_text(text)

    for name in ("cluster.yaml", "nodes.yaml"):
        write(name, cluster)
    for name in ("state.json", "snapshot.json", "cluster.jsonl", "before.jsonl"):
        write(name, [*cluster, *team, *_pods("default", "train", ("p1",))])
    write("whole.yaml", [*cluster, job])
    for name in ("job.yaml", "train.yaml", "manifests/job.yaml"):
        write(name, [job])
    write("team.yaml", team)
    waiting = json.loads(json.dumps(team))
    for each in waiting:
        if each["kind"] == "Pod":
            each["spec"]["nodeSelector"] = {"example.com/nowhere": "here"}
    write("waiting.yaml", waiting)
    write("jobs.yaml", team)
    write("jobs/team.yaml", team)
    conf = (ROOT / "examples/16-reservations/reservations.conf").read_text()
    for name in ("volcano-scheduler.conf", "volcano-scheduler.yaml", "scheduler.conf", "batch.conf", "reclaim.yaml"):
        (folder / name).write_text(conf)
    (folder / "profile.yaml").write_text("apiVersion: tierwise.io/v1alpha1\nkind: SchedulerProfile\n")
    kube = (ROOT / "examples/07-elastic-quota/scheduler.yaml").read_text()
    for name in ("koord-scheduler.yaml", "koord-scheduler-config.yaml"):
        (folder / name).write_text(kube)
    plugins = {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}}
    profiles = [{"schedulerName": "scheduler-plugins-scheduler", "plugins": plugins}]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": profiles,
    }
    (folder / "scheduler-plugins.yaml").write_text(json.dumps(config))
    listed = json.dumps([{"name": "rack-0", "layer": 1, "parent": "", "children": []}])
    maps = (("koord-scheduler-config", {"koord-scheduler-config": kube}), ("network", {"topology.json": listed}))
    write("maps.yaml", [_object("v1", "ConfigMap", name, "default", data=data) for name, data in maps])
    hosts = [node["metadata"]["name"] for node in cluster if node["kind"] == "Node"]
    times = "StartTime=2099-11-21T22:00:00 EndTime=2099-11-22T02:30:00 Duration=04:30:00"
    (folder / "reservations.txt").write_text(
        f"ReservationName=rack-3 {times}\n   Nodes={hosts[0]} Flags=MAINT,WEEKLY\n"
    )
    for name, titles in (("hosts.csv", "host,rack,spine"), ("table.csv", "sn,tor,hall")):
        rows = [f"{h},r{i // 16},s{i // 64}" for i, h in enumerate(hosts)]
        (folder / name).write_text("\n".join([titles, *rows]) + "\n")
    rows = [f"{h},s{i // 64},l{i // 16}" for i, h in enumerate(hosts)]
    for name in ("fabric.csv", "lingjun_topology.csv"):
        (folder / name).write_text("\n".join(["host,spine,leaf", *rows]) + "\n")
    jobs = [f"{60 * i},{1 << i % 5},{600 + 60 * i}" for i in range(20)]
    for name in ("jobs.csv", "philly_jobs.csv"):
        (folder / name).write_text("\n".join(["timestamp,num_gpus,duration", *jobs]) + "\n")
    grid = {
        "axes": {
            "topology": {"small": "synthetic:spines=1,leaves=2,hosts=4"},
            "trace": {"few": "synthetic:jobs=8"},
            "load": [0.9],
            "profile": ["default", "tree"],
            "seed": [1, 2],
        },
        "baseline": "tree",
    }
    (folder / "sweep.yaml").write_text(json.dumps(grid))
    slurm = home / "etc" / "slurm"
    slurm.mkdir(parents=True)
    racks = [f"SwitchName=rack{r} Nodes={','.join(hosts[r * 16 : r * 16 + 16])}" for r in range(8)]
    (slurm / "topology.conf").write_text("\n".join([*racks, "SwitchName=spine Switches=rack[0-7]"]) + "\n")
    speed = home / "host" / "sys" / "class" / "net" / "eth1"
    speed.mkdir(parents=True)
    (speed / "speed").write_text("10000\n")
    (home / "run" / "tls").mkdir(parents=True)
    (folder / "certs").symlink_to(home / "run" / "tls")
    (home / ".config" / "fish" / "completions").mkdir(parents=True)


def _object(version: str, kind: str, name: str, namespace: str = "", **body: object) -> dict[str, Any]:
    about = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": about, **body}


def _cluster() -> list[dict[str, Any]]:
    """Two spines of four racks of sixteen nodes, feeds of power and domains of NVLink; a namespace and its queue."""
    found: list[dict[str, Any]] = []
    amounts = {"cpu": "96", "memory": "768Gi", "nvidia.com/gpu": "8", "pods": "110"}
    names = [f"node-{i}" if i < 16 else f"rack-{i // 16}-node-{i % 16}" for i in range(127)] + ["n1"]
    for name in names:
        node = _object("v1", "Node", name)
        place = len([each for each in found if each["kind"] == "Node"])
        node["metadata"]["labels"] = {
            "kubernetes.io/hostname": name,
            "node.kubernetes.io/instance-type": "gpu-8",
            "network.topology.nvidia.com/leaf": f"leaf-{place // 16}",
            "network.topology.nvidia.com/spine": f"core-{place // 64}",
            "network.topology.nvidia.com/accelerator": f"nvl-{place // 8}",
        }
        ready = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
        address = [{"type": "InternalIP", "address": "127.0.0.1"}] if name == "n1" else []
        node["status"] = {"capacity": amounts, "allocatable": amounts, "conditions": ready, "addresses": address}
        found.append(node)
    for r in range(8):
        found.append(_hypernode(f"rack-{r}", 1, "rack", "Node", names[r * 16 : r * 16 + 16]))
    for s in range(2):
        found.append(_hypernode(f"spine-{s}", 2, "spine", "HyperNode", [f"rack-{s * 4 + r}" for r in range(4)]))
    for fabric in ("nvlink", "power"):
        for i in range(16):
            domain = _hypernode(f"{fabric}-{i}", 1, "domain", "Node", names[i * 8 : i * 8 + 8])
            domain["metadata"]["labels"] = {"tierwise.io/fabric": fabric}
            found.append(domain)
    found += [_object("v1", "Namespace", name) for name in ("team-a", "tierwise")]
    for queue in ("default", "team-a"):
        spec = {"weight": 1, "reclaimable": True, "capability": {"nvidia.com/gpu": "1024"}}
        found.append(_object("scheduling.volcano.sh/v1beta1", "Queue", queue, spec=spec))
    return found


def _hypernode(name: str, tier: int, called: str, kind: str, inside: list[str]) -> dict[str, Any]:
    members = [{"type": kind, "selector": {"exactMatch": {"name": each}}} for each in inside]
    spec = {"tier": tier, "tierName": called, "members": members}
    return _object("topology.volcano.sh/v1alpha1", "HyperNode", name, spec=spec)


def _team() -> list[dict[str, Any]]:
    """Jobs of both namespaces that wait or run: those that lines ask about."""
    gangs = (("team-a", "train", ("train-0", "train-worker-0")), ("team-a", "eval", ("eval-0",)))
    found = [each for namespace, name, pods in gangs for each in _pods(namespace, name, pods)]
    return [*found, *_pods("default", "train", [f"train-worker-{i}" for i in range(8)])]


def _pods(namespace: str, group: str, names: Any) -> list[dict[str, Any]]:
    spec = {"minMember": len(names), "queue": "team-a" if namespace == "team-a" else "default"}
    found = [_object("scheduling.volcano.sh/v1beta1", "PodGroup", group, namespace, spec=spec)]
    found = found if names != ("p1",) else []
    for name in names:
        needs = {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "8"}}
        container = {"name": "main", "image": "example.com/train:1", "resources": needs}
        pod = _object("v1", "Pod", name, namespace, spec={"schedulerName": "volcano", "containers": [container]})
        pod["metadata"]["annotations"] = {"scheduling.k8s.io/group-name": group, "tierwise.io/run-for": "2h"}
        found.append(pod)
    return found


def _job() -> dict[str, Any]:
    """A Volcano Job with the pods that lines name."""
    needs = {"limits": {"nvidia.com/gpu": "8", "cpu": "4"}}
    container = {"name": "main", "image": "example.com/train:1", "resources": needs}
    marks = {"annotations": {"tierwise.io/run-for": "30m"}}
    template = {"metadata": marks, "spec": {"restartPolicy": "Never", "containers": [container]}}
    task = {"name": "worker", "replicas": 8, "template": template}
    spec = {"minAvailable": 8, "schedulerName": "volcano", "queue": "default", "tasks": [task]}
    return _object("batch.volcano.sh/v1alpha1", "Job", "train", "default", spec=spec)


if __name__ == "__main__":
    main()
