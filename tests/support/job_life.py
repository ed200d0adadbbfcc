"""A job whose pods live and die by hand: for tests of what the job controller makes of it.

life = Life(job("train", task("w", 2), policies=[policy("PodFailed", "RestartJob")]))
life.run_all()
life.set("w", 0, "Failed", code=3)
assert ("Pending", 1) == (life.phase, life.retries)
"""

from __future__ import annotations

from tests.support.manifests import (
    NOW,
    names,
    objects,
    part,
    pod_group,
    settled,
    status,
)

from tierwise.api.codec import Raw
from tierwise.controllers.job import KeySource
from tierwise.port import Key, Objects, RecordEvent


def policy(trigger: str | int, action: str, **fields: object) -> Raw:
    """A life-cycle policy by its event or its exit code."""
    return {("exitCode" if isinstance(trigger, int) else "event"): trigger, "action": action, **fields}


def command(name: str, action: str, job: str = "train") -> Raw:
    """A command for a job."""
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": metadata,
        "action": action,
        "target": target,
    }


class Simulation:
    """The objects around one job, settled after every change; the pod group starts as soon as there is one."""

    def __init__(self, batch: Raw, *others: Raw, keys: KeySource | None = None) -> None:
        self.now = NOW
        self._key_source = keys
        self.told: list[RecordEvent] = []
        self.name = str(part(batch, "metadata")["name"])
        self.world = objects(batch, pod_group(f"{self.name}-u1"), *others)
        self.settle()

    def settle(self) -> Objects:
        """Let the controllers work, and let pod groups that are new in."""
        for _ in range(4):
            self.world = settled(self.world, self.now, self.told, self._key_source)
            waiting = [k for k in self.world if k.kind == "PodGroup" and "status" not in (self.world.raw(k) or {})]
            if not waiting:
                break
            self.world = self.world.changed({k: self._raw(k) | {"status": {"phase": "Inqueue"}} for k in waiting})
        return self.world

    def run_all(self) -> None:
        """Every pod that waits runs."""
        for key in self._keys("Pod"):
            if part(self._raw(key), "metadata").get("deletionTimestamp") is None and "status" not in self._raw(key):
                self._put(key, {"status": {"phase": "Running"}})
        self.settle()

    def set(self, task: str, index: int, phase: str, *, code: int | None = None, **fields: object) -> None:
        """A pod reaches a phase, perhaps with an exit code of its container."""
        reached: Raw = {"phase": phase, **fields}
        if code is not None:
            reached["containerStatuses"] = [{"name": "main", "state": {"terminated": {"exitCode": code}}}]
        self._put(self.pod(task, index), {"status": reached})
        self.settle()

    def lose(self, *pods: tuple[str, int]) -> None:
        """Pods are gone, without the controller having asked for it."""
        self.world = self.world.changed({}, [self.pod(task, index) for task, index in pods])
        self.settle()

    def send(self, *raws: Raw) -> None:
        """Objects are put beside the job."""
        self.world = self.world.changed({Key("bus.volcano.sh", "Command", "default", _name(raw)): raw for raw in raws})
        self.settle()

    def change(self, **spec: object) -> None:
        """Fields of the job's spec are changed."""
        [key] = self._keys("Job")
        self._put(key, {"spec": part(self._raw(key), "spec") | spec})
        self.settle()

    def wait(self, seconds: float) -> None:
        """Time passes."""
        self.now += seconds
        self.settle()

    def pod(self, task: str, index: int) -> Key:
        return Key("", "Pod", "default", f"{self.name}-{task}-{index}")

    def marks(self, task: str, index: int) -> tuple[str, str]:
        """The version and the retry count that a pod was made with."""
        annotations = part(part(self._raw(self.pod(task, index)), "metadata"), "annotations")
        return str(annotations["volcano.sh/job-version"]), str(annotations["volcano.sh/job-retry-count"])

    @property
    def status(self) -> Raw:
        return status(self.world, "Job", f"default/{self.name}")

    @property
    def state(self) -> Raw:
        return part(self.status, "state")

    @property
    def phase(self) -> object:
        return self.state["phase"]

    @property
    def retries(self) -> object:
        return self.status.get("retryCount")

    @property
    def pods(self) -> list[str]:
        return [name.removeprefix(f"default/{self.name}-") for name in names(self.world, "Pod")]

    @property
    def conditions(self) -> list[object]:
        """The phases that the job has been through."""
        found = self.status["conditions"]
        assert isinstance(found, list)
        return [entry["status"] for entry in found]

    def _keys(self, kind: str) -> list[Key]:
        return [key for key in self.world if key.kind == kind]

    def _raw(self, key: Key) -> Raw:
        return self.world.raw(key) or {}

    def _put(self, key: Key, fields: Raw) -> None:
        self.world = self.world.changed({key: self._raw(key) | fields})


def _name(raw: Raw) -> str:
    return str(part(raw, "metadata")["name"])
