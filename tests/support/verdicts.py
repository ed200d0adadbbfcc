"""What `validate` says, in a form that a test can compare."""

from __future__ import annotations

from tests.support.manifests import objects

from tierwise.admission import validate
from tierwise.api.codec import Raw

__all__ = ["errors", "warnings"]


def errors(*raws: Raw) -> list[tuple[str, str]]:
    """Path and message of every error about these manifests."""
    return [(finding.path, finding.message) for finding in validate(objects(*raws)).errors]


def warnings(*raws: Raw) -> list[tuple[str, str]]:
    """Path and message of every warning about these manifests."""
    return [(finding.path, finding.message) for finding in validate(objects(*raws)).warnings]
