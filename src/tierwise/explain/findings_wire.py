"""The JSON of `validate`: part of the contract that `wire` keeps for the other verbs."""

from __future__ import annotations

from tierwise.admission import FieldFinding, ValidationResult
from tierwise.api.codec import Raw

__all__ = ["verdict_wire"]


def verdict_wire(verdict: ValidationResult, *, unread: int = 0) -> Raw:
    """All findings, object by object; where some documents could not be read, the whole is not valid."""
    return {
        "valid": verdict.valid and not unread,
        "errors": [_finding(finding) for finding in verdict.errors],
        "warnings": [_finding(finding) for finding in verdict.warnings],
    }


def _finding(finding: FieldFinding) -> Raw:
    return {"object": finding.object, "path": finding.path, "message": finding.message}
