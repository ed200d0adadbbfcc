"""Service accounts with the rights that deploy/ gives, and no others: what tierwise runs as in these tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import yaml
from tests.e2e.api import Api, Json
from tests.e2e.control_plane import ControlPlane

__all__ = ["NAMESPACE", "Accounts"]

NAMESPACE: Final = "tierwise"
_RBAC: Final = Path(__file__).parents[2] / "deploy/kustomize/base/rbac"
_ROLES: Final = "/apis/rbac.authorization.k8s.io/v1"
_PATHS: Final = {
    "ServiceAccount": f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts",
    "ClusterRole": f"{_ROLES}/clusterroles",
    "ClusterRoleBinding": f"{_ROLES}/clusterrolebindings",
    "Role": f"{_ROLES}/namespaces/{NAMESPACE}/roles",
    "RoleBinding": f"{_ROLES}/namespaces/{NAMESPACE}/rolebindings",
}
_KINDS: Final = ("ClusterRole", "Role")
BOTH: Final = "both"
"""`tierwise run` with its controllers has the rights of both components."""


class Accounts:
    """The accounts of the components, and a kubeconfig for each."""

    def __init__(self, plane: ControlPlane, api: Api) -> None:
        self._plane, self._api = plane, api
        self._files: dict[str, Path] = {}
        self._put("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for component in ("read", "scheduler", "controllers", "webhook"):
            for manifest in yaml.safe_load_all((_RBAC / f"{component}.yaml").read_text()):
                self._put(_PATHS[manifest["kind"]], manifest)
        self._account("looker", ("ClusterRole", "tierwise-read"))
        roles = [
            (kind, f"tierwise-{name}") for name in ("scheduler", "controllers") for kind in ("ClusterRole", "Role")
        ]
        self._account(f"tierwise-{BOTH}", ("ClusterRole", "tierwise-read"), *roles)

    def kubeconfig(self, account: str) -> Path:
        """A kubeconfig for one of the accounts."""
        if account not in self._files:
            path = f"{_PATHS['ServiceAccount']}/{account}/token"
            token = self._api.ask("POST", path, {"spec": {"expirationSeconds": 7200}})["status"]["token"]
            described: Any = self._plane.describe(f"https://127.0.0.1:{self._plane.port}")
            described["users"][0]["user"]["token"] = token
            self._files[account] = self._plane.folder / f"kubeconfig-{account}"
            self._files[account].write_text(json.dumps(described))
        return self._files[account]

    def of(self, verb: str, arguments: tuple[str, ...]) -> Path:
        """The kubeconfig for a process: rights of the component that it is."""
        if verb == "run":
            return self.kubeconfig("tierwise-scheduler" if "--no-controllers" in arguments else f"tierwise-{BOTH}")
        return self.kubeconfig(f"tierwise-{verb}")

    def _account(self, name: str, *roles: tuple[str, str]) -> None:
        subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
        self._put(_PATHS["ServiceAccount"], {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})
        for kind, role in roles:
            binding = f"{kind}Binding"
            manifest = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": binding,
                "metadata": {"name": f"{name}-{role}"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": [subject],
            }
            self._put(_PATHS[binding], manifest)

    def _put(self, collection: str, manifest: Json) -> None:
        path = f"{collection}/{manifest['metadata']['name']}?fieldManager=test&force=true"
        self._api.ask("PATCH", path, manifest, kind="application/apply-patch+yaml")
