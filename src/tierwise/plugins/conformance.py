"""conformance: system pods are never victims. It takes part in eviction alone and has no say in placing."""

from __future__ import annotations

from tierwise.framework.extension import Arguments, CycleView

__all__ = ["Conformance"]


class Conformance:
    """Known to every profile; its victim filter comes into play where a profile evicts."""

    def __init__(self, arguments: Arguments, view: CycleView) -> None:
        pass
