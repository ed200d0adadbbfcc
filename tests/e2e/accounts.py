"""Service accounts with the rights that deploy/ gives, and no others: what tierwise runs as in these tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml
from tests.e2e.api import Api, Json
from tests.e2e.control_plane import ControlPlane

__all__ = ["NAMESPACE", "NODES", "Accounts"]

NAMESPACE: Final = "tierwise"
NODES: Final = "tierwise-nodes"
"""Where programs run that nodes have."""

_KUSTOMIZE: Final = Path(__file__).parents[2] / "deploy/kustomize"
_FILES = ("read", "read-config", "scheduler", "controllers", "webhook")
_CLUSTER_WIDE: Final = ("Namespace", "ClusterRole", "ClusterRoleBinding")
BOTH: Final = "both"
"""`tierwise run` with its controllers has the rights of both components."""


class Accounts:
    """The accounts of the components, and a kubeconfig for each."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self._plane, self._api = plane, api
        self._files: dict[str, Path] = {}

    def make(self) -> None:
        """The accounts as deploy/ has them, and some of the tests' own; not where a tool installs deploy/ itself."""
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        self.install(*(f"base/rbac/{component}.yaml" for component in _FILES))
        self._account("looker", ("ClusterRole", "tierwise-read"))
        roles = [
            (kind, f"tierwise-{name}") for name in ("scheduler", "controllers") for kind in ("ClusterRole", "Role")
        ]
        reads = [("ClusterRole", f"tierwise-{name}") for name in ("read", "read-config")]
        self._account(f"tierwise-{BOTH}", *reads, *roles)

    def install(self, *files: str) -> None:
        """What files of deploy/kustomize hold."""
        for file in files:
            for manifest in yaml.safe_load_all((_KUSTOMIZE / file).read_text()):
                self.put(manifest)

    def kubeconfig(self, account: str) -> Path:
        """A kubeconfig for one of the accounts of our namespace."""
        if account not in self._files:
            self._files[account] = self.write(account, self.token(account))
        return self._files[account]

    def token(self, account: str, namespace: str = NAMESPACE, pod: str = "") -> str:
        """A token for an account; of one of its pods, as kubelets ask for it, if one is named."""
        asked: Json = {"expirationSeconds": 7200}
        if pod:
            asked["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod}
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        return str(self._api.ask("POST", path, {"spec": asked})["status"]["token"])

    def may(
        self, account: str, verb: str, resource: str, *, of: str = NAMESPACE, where: str = "default", **more: str
    ) -> bool:
        """Whether an account of a namespace has a right in another; `more` is a group, or the name of an object."""
        kind, _, inner = resource.partition("/")
        attributes = {"verb": verb, "resource": kind, "subresource": inner, "namespace": where, **more}
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {"user": f"system:serviceaccount:{of}:{account}", "resourceAttributes": attributes},
        }
        answer = self._api.ask("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    def write(self, name: str, token: str) -> Path:
        """A kubeconfig with a token."""
        described: Any = self._plane.describe(f"https://127.0.0.1:{self._plane.port}")
        described["users"][0]["user"]["token"] = token
        file = self._plane.folder / f"kubeconfig-{name}"
        file.write_text(json.dumps(described))
        return file

    def of(self, verb: str, arguments: tuple[str, ...]) -> Path:
        """The kubeconfig for a process: rights of the component that it is."""
        if verb == "run":
            return self.kubeconfig("tierwise-scheduler" if "--no-controllers" in arguments else f"tierwise-{BOTH}")
        return self.kubeconfig(f"tierwise-{verb}")

    def _account(self, name: str, *roles: tuple[str, str]) -> None:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        self.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        for kind, role in roles:
            binding = f"{kind}Binding"
            manifest = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": binding,
                "metadata": {"name": f"{name}-{role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": [subject],
            }
            self.put(manifest)

    def put(self, manifest: Json) -> None:
        """Server-side apply; what names no namespace is ours, as kustomize has it."""
        kind, meta = manifest["kind"], manifest["metadata"]
        root = "/api/v1" if manifest["apiVersion"] == "v1" else f"/apis/{manifest['apiVersion']}"
        plural = f"{kind.lower().removesuffix('y')}ies" if kind.endswith("Policy") else f"{kind.lower()}s"
        wide = kind in _CLUSTER_WIDE or kind.startswith("Validating")
        inside = "" if wide else f"/namespaces/{meta.get('namespace', NAMESPACE)}"
        path = f"{root}{inside}/{plural}/{meta['name']}?fieldManager=test&force=true"
        self._api.ask("PATCH", path, manifest, kind="application/apply-patch+yaml")
