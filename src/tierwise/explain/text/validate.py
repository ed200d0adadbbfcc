"""What `validate` says: errors and warnings object by object, and a closing line; the same for programs."""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.admission import FieldFinding, ValidationResult
from tierwise.api.codec import Raw
from tierwise.explain.page import Page, Text, count, wrapped

__all__ = ["verdict_lines", "verdict_wire"]

_MOST = 50


def verdict_lines(page: Page, verdict: ValidationResult, objects: int, *, unread: int = 0) -> list[Text]:
    """All findings, errors first, and what they come to; `unread` documents are no objects and not valid."""
    lines = _findings(page, verdict.errors, Text("error", style="red"))
    lines += _findings(page, verdict.warnings, Text("warning", style="yellow"))
    if lines:
        lines.append(Text(""))
    total = f"{count(len(verdict.errors), 'error')}, {count(len(verdict.warnings), 'warning')}"
    valid = verdict.valid and not unread
    word = Text("valid", style="bold green") if valid else Text("invalid", style="bold red")
    unread_text = f", and {count(unread, 'object')} that cannot be read" if unread else ""
    return [*lines, Text.assemble(word, f": {total} in {count(objects, 'object')}{unread_text}")]


def _findings(page: Page, findings: Sequence[FieldFinding], severity: Text) -> list[Text]:
    shown = findings if page.everything else findings[:_MOST]
    lines: list[Text] = []
    lead = " " * 9
    for finding in shown:
        field = f"  {finding.path}" if finding.path else ""
        lead_text = Text.assemble(severity, " " * (9 - severity.cell_len))
        lines += wrapped(Text.assemble((finding.object, "bold"), (field, "cyan")), page.width, first=lead_text)
        lines += wrapped(Text(finding.message), page.width, first=lead)
    if len(findings) > len(shown):
        hidden_text = count(len(findings) - len(shown), f"more {severity.plain}")
        lines.append(Text(f"{lead}and {hidden_text}; --all shows them", style="dim"))
    return lines


def verdict_wire(verdict: ValidationResult, *, unread: int = 0) -> Raw:
    """All findings, object by object; where some documents could not be read, the whole is not valid."""
    return {
        "valid": verdict.valid and not unread,
        "errors": [_finding(finding) for finding in verdict.errors],
        "warnings": [_finding(finding) for finding in verdict.warnings],
    }


def _finding(finding: FieldFinding) -> Raw:
    return {"object": finding.object, "path": finding.path, "message": finding.message}
