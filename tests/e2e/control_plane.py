"""A real etcd and kube-apiserver on loopback, for as long as a test session lasts."""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.support.ports import free_ports

__all__ = ["ControlPlane", "processor_seconds"]


_GATES: Final = {
    "GenericWorkload": True,
    "TopologyAwareWorkloadScheduling": False,
    "DynamicResourceAllocation": True,
    "DRADeviceBindingConditions": False,
    "DRAExtendedResource": False,
    "DRAResourceClaimDeviceStatus": False,
    "InPlacePodVerticalScaling": False,
}
"""Features that tests use, and whether each has kinds of its own, which are off as long as it is not stable: a server
that is told of one by its name and does not have it does not start."""


class ControlPlane:
    """Two processes, a folder of theirs, and a kubeconfig for the administrator."""

    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self.folder = folder
        self._token = secrets.token_hex(16)
        self._etcd_port, self._peer_port, self.port = free_ports(3)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        (folder / "etcd").mkdir(parents=True)
        (folder / "certs").mkdir()
        (folder / "tokens.csv").write_text(f'{self._token},admin,admin,"system:masters"\n')
        (folder / "account.key").write_bytes(_private_key())

    def start(self) -> None:
        """Start both, and wait until the API server is ready."""
        self._start(
            "etcd",
            f"--data-dir={self.folder}/etcd",
            f"--listen-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--advertise-client-urls=http://127.0.0.1:{self._etcd_port}",
            f"--listen-peer-urls=http://127.0.0.1:{self._peer_port}",
            "--unsafe-no-fsync",
            "--log-level=error",
        )
        self.start_server()

    def start_server(self) -> None:
        """Start the API server alone, as after a crash."""
        self._start(
            "kube-apiserver",
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--secure-port={self.port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder}/certs",
            f"--token-auth-file={self.folder}/tokens.csv",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/account.key",
            f"--service-account-signing-key-file={self.folder}/account.key",
            "--service-cluster-ip-range=10.0.0.0/24",
            # Both wait for a controller manager, which nobody runs here.
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            *self._switched_on(),
        )
        self._wait_ready(180)
        self.kubeconfig.write_text(json.dumps(self.describe(f"https://127.0.0.1:{self.port}")))

    def _switched_on(self) -> list[str]:
        """What is off in this version and tests use, by the server's own help: a gate that it lacks would stop it."""
        said = subprocess.run([self._binaries / "kube-apiserver", "--help"], capture_output=True, text=True, check=True)
        stages = dict(re.findall(r"(\w+)=true\|false \((ALPHA|BETA) - default=", said.stdout))
        gates = [gate for gate in _GATES if f"{gate}=true|false ({stages.get(gate)} - default=false)" in said.stdout]
        kinds = {stages[gate].lower() for gate, own in _GATES.items() if own and gate in stages}
        found = [f"--feature-gates={','.join(f'{gate}=true' for gate in gates)}"] if gates else []
        return found + (
            [f"--runtime-config={','.join(f'api/{stage}=true' for stage in sorted(kinds))}"] if kinds else []
        )

    def stop_server(self) -> None:
        """Kill the API server; etcd keeps what it held."""
        process = self._processes.pop("kube-apiserver")
        process.kill()
        process.wait()

    def compact(self) -> None:
        """Let etcd forget every version but the present one."""
        present = self._etcd("range", {"key": base64.b64encode(b"/").decode(), "count_only": True})
        self._etcd("compaction", {"revision": present["header"]["revision"], "physical": True})

    def _etcd(self, what: str, body: dict[str, object]) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self._etcd_port}/v3/kv/{what}"
        with urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode()), timeout=60) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def processor_seconds(self) -> float:
        """What the server and its etcd have used so far."""
        return sum(self.processor_seconds_by_process().values())

    def processor_seconds_by_process(self) -> dict[str, float]:
        """The same of each of them."""
        return {name: processor_seconds(process.pid) for name, process in self._processes.items()}

    def metrics(self) -> str:
        """What the API server counts."""
        url, headers = f"https://127.0.0.1:{self.port}/metrics", {"Authorization": f"Bearer {self._token}"}
        request = urllib.request.Request(url, headers=headers)
        with urllib.request.urlopen(request, timeout=60, context=self.tls()) as answer:
            found: bytes = answer.read()
        return found.decode()

    def stop(self) -> None:
        """Kill both: nobody reads their folder any more, and an API server takes long to say goodbye."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    @property
    def kubeconfig(self) -> Path:
        return self.folder / "kubeconfig"

    @property
    def token(self) -> str:
        return self._token

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.folder / "certs" / "apiserver.crt"))

    def describe(self, server: str) -> dict[str, object]:
        """A kubeconfig for the administrator through some address."""
        authority = base64.b64encode((self.folder / "certs" / "apiserver.crt").read_bytes()).decode()
        cluster = {"server": server, **({"certificate-authority-data": authority} if "https" in server else {})}
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": "admin", "user": {"token": self._token}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "admin"}}],
        }

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            command = [str(self._binaries / name), *arguments]
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, cwd=self.folder)

    def _wait_ready(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self._processes["kube-apiserver"].poll() is not None:
                break
            try:
                request = urllib.request.Request(
                    f"https://127.0.0.1:{self.port}/readyz", headers={"Authorization": f"Bearer {self._token}"}
                )
                with urllib.request.urlopen(request, timeout=10, context=self.tls()) as answer:
                    if answer.status == 200:
                        return
            except (OSError, urllib.error.URLError):
                pass
            time.sleep(0.2)
        said = (self.folder / "kube-apiserver.log").read_text(errors="replace")[-2000:]
        raise RuntimeError(f"the API server is not ready after {seconds:.0f} seconds:\n{said}")


def processor_seconds(pid: int) -> float:
    """What a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _private_key() -> bytes:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
