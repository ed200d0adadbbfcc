"""The table of what tenants write on the page about the security model, made from the one in the code.

`python -m tests.support.tenant_page` writes it; `tests/unit/test_tenant_inputs.py` holds the page against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from tests.support.commands import ROOT

from tierwise.api.tenant_inputs import TENANT_INPUTS, TenantInput

__all__ = ["PAGE", "page"]

PAGE: Final = ROOT / "docs" / "security-model.md"
_HEAD: Final = "| Written | Takes from others | Up to | Charged to | Switch | Held by |\n|---|---|---|---|---|---|\n"


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _line(row: TenantInput) -> str:
    return f"| {' | '.join((_code(row.keys), *row[1:5], _code(row.tests)))} |\n"


def page() -> str:
    """The page as it is, with its table made again."""
    table = _HEAD + "".join(map(_line, TENANT_INPUTS))
    return re.sub(re.escape(_HEAD) + r"(?:\|.*\n)*", lambda _: table, PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
