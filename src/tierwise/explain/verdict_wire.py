"""The JSON of `validate`: part of the contract that `wire` keeps for the other verbs."""

from __future__ import annotations

from tierwise.admission import Finding, Verdict
from tierwise.api.codec import Raw

__all__ = ["verdict_wire"]


def verdict_wire(verdict: Verdict, *, unread: int = 0) -> Raw:
    """All findings, object by object; where some documents could not be read, the whole is not valid."""
    return {
        "valid": verdict.valid and not unread,
        "errors": [_finding(finding) for finding in verdict.errors],
        "warnings": [_finding(finding) for finding in verdict.warnings],
    }


def _finding(finding: Finding) -> Raw:
    return {"object": finding.object, "path": finding.path, "message": finding.message}
