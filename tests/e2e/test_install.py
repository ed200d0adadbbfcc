"""The manifests that users install, applied to a real API server: the rights suffice, and the webhook is asked."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from tests.e2e.api import ApiRefusal, Json
from tests.e2e.control_plane import free_ports
from tests.e2e.world import World, job, task

from tierwise.runtime.certificates import issue

BASE = Path(__file__).parents[2] / "deploy" / "kustomize" / "base"
NAMESPACE = "tierwise"


def _manifests(*files: str) -> Iterator[Json]:
    for name in files:
        for found in yaml.safe_load_all((BASE / name).read_text(encoding="utf-8")):
            found["metadata"].setdefault("namespace", NAMESPACE)
            yield found


@pytest.fixture
def installed(world: World) -> World:
    """Namespace, accounts and rights, by server-side apply."""
    rights = sorted(f"rbac/{file.name}" for file in (BASE / "rbac").glob("*.yaml"))
    for found in _manifests("namespace.yaml", *rights, "services.yaml", "scheduler.yaml", "controllers.yaml"):
        world.api.apply(found)
    return world


def _as(world: World, account: str, folder: Path) -> Path:
    """A kubeconfig with the token of a service account, and none of the administrator's rights."""
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
    token = world.api.ask("POST", path, request)["status"]["token"]
    described = world.plane.describe(f"https://127.0.0.1:{world.plane.port}")
    described["users"] = [{"name": "admin", "user": {"token": token}}]
    file = folder / account
    file.write_text(json.dumps(described))
    return file


def test_rights_suffice(installed: World, tmp_path: Path) -> None:
    """Scheduler and controllers do all their work with the rights of their own accounts, and hold their leases."""
    world = installed
    world.racks(racks=2, size=2)
    lease = ("--lease-namespace", NAMESPACE)
    scheduler = _as(world, "tierwise-scheduler", tmp_path)
    world.run("--no-controllers", *lease, kubeconfig=scheduler)
    world.run(*lease, verb="controllers", kubeconfig=_as(world, "tierwise-controllers", tmp_path))
    world.api.create(job("train", task("w", 2), networkTopology={"mode": "hard", "highestTierAllowed": 1}))
    world.until(lambda: len(world.running("train")) == 2)
    world.api.create(job("wide", task("w", 9)))
    world.until(lambda: bool(world.group("wide").get("status", {}).get("conditions")))
    world.until(lambda: bool(world.told(world.group("wide")["metadata"]["name"])))

    assert "forbidden" not in world.tell()
    assert [] == world.audit()


def test_webhook_refuses_what_is_wrong(world: World, tmp_path: Path) -> None:
    """A job that cannot be meant is refused with a reason when it is created; a sound one is let in."""
    (port,) = free_ports(1)
    bundle = issue(["localhost"], datetime.now(UTC))
    (tmp_path / "tls.crt").write_bytes(bundle.certificate)
    (tmp_path / "tls.key").write_bytes(bundle.key)
    arguments = ("--tls-folder", str(tmp_path), "--host", "127.0.0.1", "--port", str(port))
    world.start("webhook", *arguments)
    found = next(m for m in _manifests("admission.yaml") if m["kind"] == "ValidatingWebhookConfiguration")
    for webhook in found["webhooks"]:
        webhook["clientConfig"] = {
            "url": f"https://localhost:{port}/validate",
            "caBundle": base64.b64encode(bundle.authority).decode(),
        }
        webhook["failurePolicy"] = "Fail"
    world.api.apply(found)
    try:
        # While the webhook starts, and until the API server asks it, everything is refused or nothing.
        world.until(lambda: "minAvailable" in _refusal(world, job("wrong", task("w", 2), minimum=5)))
        assert "" == _refusal(world, job("right", task("w", 2)))
    finally:
        world.api.delete("ValidatingWebhookConfiguration", "tierwise", "")


def _refusal(world: World, manifest: Json) -> str:
    """What the API server says against an object; "" where it takes it, in which case it is taken away again."""
    try:
        world.api.create(manifest)
    except ApiRefusal as refusal:
        return str(refusal)
    world.api.delete("Job", manifest["metadata"]["name"])
    return ""
