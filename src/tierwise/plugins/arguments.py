"""Moved: `tierwise.framework.arguments`."""

from tierwise.framework.arguments import flag, number, words

__all__ = ["flag", "number", "words"]
