"""What an auditor says."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Finding"]


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that is broken, by whom, and how."""

    rule: str
    subject: str
    text: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.text} ({self.rule})"
