"""Deployments that run: the pods of ours as processes of this machine, replaced one by one when they change.

What a Deployment controller and kubelets do, as far as an upgrade needs it: arguments, configuration and account are
those of the pod template; one new pod is started and ready before one old pod is told to end.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from tests.e2e.accounts import Accounts
from tests.e2e.api import Api, Json
from tests.support.ports import free_port

__all__ = ["Pod", "Rollouts"]

_PATIENCE: Final = 120.0


class Pod(msgspec.Struct):
    """A process that stands for a pod."""

    template: Json
    process: subprocess.Popen[bytes]
    port: int

    def ready(self) -> bool:
        """What its readiness probe says."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except (OSError, urllib.error.URLError):
            return False


class Rollouts:
    """All Deployments of a namespace; `program` are the words that start the image's entry point."""

    def __init__(
        self, api: Api, accounts: Accounts, folder: Path, namespace: str, program: list[str] | None = None
    ) -> None:
        self._api, self._accounts, self._folder, self._namespace = api, accounts, folder, namespace
        self._program = program or [sys.executable, "-m", "tierwise"]
        self.pods: dict[str, list[Pod]] = {}
        self.started = 0

    def settle(self, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Until every Deployment runs as it says; `meanwhile` is called before each step."""
        steps = True
        while steps:
            steps = False
            for deployment in self._deployments():
                steps |= self._step(deployment, meanwhile)

    def close(self) -> None:
        """End all of them, in order."""
        for pod in (pod for pods in self.pods.values() for pod in pods):
            _end(pod)
        self.pods.clear()

    def _deployments(self) -> list[Json]:
        found: list[Json] = self._api.ask("GET", f"/apis/apps/v1/namespaces/{self._namespace}/deployments")["items"]
        gone = self.pods.keys() - {deployment["metadata"]["name"] for deployment in found}
        for pod in (pod for name in gone for pod in self.pods.pop(name)):
            _end(pod)
        return found

    def _step(self, deployment: Json, meanwhile: Callable[[], None]) -> bool:
        """Add, replace or end one pod; False where nothing is left to do."""
        name, spec = deployment["metadata"]["name"], deployment["spec"]
        pods = self.pods.setdefault(name, [])
        old = [pod for pod in pods if pod.template != spec["template"]]
        new = len(pods) - len(old)
        if not old and new == spec["replicas"]:
            return False
        meanwhile()
        if new < spec["replicas"]:
            pod = self._start(name, spec["template"])
            end = time.monotonic() + _PATIENCE
            while not pod.ready():
                assert pod.process.poll() is None, f"{name} has ended:\n{self.said(name)}"
                assert time.monotonic() < end, f"{name} is not ready:\n{self.said(name)}"
                time.sleep(0.2)
            pods.append(pod)
        leaving = old or pods[spec["replicas"] :]
        for pod in leaving[:1]:
            pods.remove(pod)
            _end(pod)
        return True

    def said(self, name: str = "") -> str:
        """What the pods of a Deployment have logged, or all."""
        return "\n".join(log.read_text() for log in sorted(self._folder.glob(f"{name}*.log")))

    def _start(self, name: str, template: Json) -> Pod:
        self.started += 1
        (container,) = template["spec"]["containers"]
        port = free_port()
        words = self._words(template["spec"], container, port)
        with (self._folder / f"{name}-{self.started}.log").open("wb") as log:
            process = subprocess.Popen([*self._program, *words], stdout=log, stderr=log)
        return Pod(template, process, port)

    def _words(self, spec: Json, container: Json, port: int) -> list[str]:
        """The container's arguments, with what the kubelet would have put around the process in their place."""
        name = spec["serviceAccountName"]  # asked for each time: it may have been deleted and made anew
        account = self._accounts.write(f"{name}-{self.started}", self._accounts.token(name, self._namespace))
        places = {"0.0.0.0:8080": f"127.0.0.1:{port}"}
        mounts = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", [])}
        for volume in spec.get("volumes", []):
            if "configMap" in volume:
                path = f"/api/v1/namespaces/{self._namespace}/configmaps/{volume['configMap']['name']}"
                data: dict[str, str] = self._api.ask("GET", path).get("data", {})
                folder = self._folder / f"mount-{self.started}-{volume['name']}"
                folder.mkdir()
                for file, text in data.items():
                    (folder / file).write_text(text)
                    places[f"{mounts[volume['name']]}/{file}"] = str(folder / file)
            elif "emptyDir" in volume:
                folder = self._folder / f"mount-{self.started}-{volume['name']}"
                folder.mkdir()
                places[mounts[volume["name"]]] = str(folder)
        words = [places.get(word, word) for word in container["args"]]
        at = words.index("--in-cluster")
        if words[0] == "webhook":
            own = ["--namespace", self._namespace, "--host", "127.0.0.1", "--port", str(free_port())]
        else:
            own = ["--lease-namespace", self._namespace]
        return [*words[:at], "--kubeconfig", str(account), *own, *words[at + 1 :]]


def _end(pod: Pod) -> None:
    """As a kubelet: asked first."""
    pod.process.send_signal(signal.SIGTERM)
    try:
        pod.process.wait(timeout=30)
    except subprocess.TimeoutExpired:
        pod.process.kill()
        pod.process.wait()
