"""Windows of nodes for tests, by seconds from the usual moment."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.support.reservations import HOUR, NOW

from tierwise.api.codec import Raw

__all__ = ["window"]


def window(name: str = "firmware", *, begins: float = HOUR, lasts: str = "1h", **spec: Any) -> list[Raw]:
    """A window that begins so many seconds from now on; on rack r0 where nothing else is said."""
    where = {} if spec.keys() & {"nodes", "nodeSelector", "domains"} else {"domains": ["r0"]}
    start = datetime.fromtimestamp(NOW + begins, UTC).isoformat()
    body = {"start": start, "duration": lasts, "margin": "0s", **where, **spec}
    return [{"apiVersion": "tierwise.io/v1alpha1", "kind": "Window", "metadata": {"name": name}, "spec": body}]
