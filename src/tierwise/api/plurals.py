"""Numbers with singular and plural nouns for messages, in one place so that "1 pods" cannot happen."""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["count", "joined", "of", "several", "verb"]


def count(number: int, word: str, plural: str = "") -> str:
    """The number with the word: "1 pod", "2 pods", "12,000 pods"."""
    return f"{_shown(number)} {word if number == 1 else plural or several(word)}"


def _shown(number: int) -> str:
    if abs(number) >= 10_000:
        return f"{number:,}"
    return str(number)


def several(word: str) -> str:
    """The plural of a noun; sites choose what they call a tier: "racks", "switches", "chassis"."""
    if word.endswith("is"):
        return word
    if word.endswith("y") and word[-2:-1] not in "aeiou":
        return f"{word[:-1]}ies"
    if word.endswith(("s", "x", "z", "ch", "sh")):
        return f"{word}es"
    return f"{word}s"


def verb(number: int, singular: str, plural: str) -> str:
    """The form of a verb that goes with so many: `verb(1, "fits", "fit")` is "fits"."""
    return singular if number == 1 else plural


def of(part: int, total: int, word: str, singular: str = "", plural: str = "") -> str:
    """A part of a whole, with a verb where one is given: "0 of 1 pod fits", "1 of 4 pods fits", "2 of 4 pods fit"."""
    text = f"{_shown(part)} of {count(total, word)}"
    if singular:
        return f"{text} {singular if part == 1 or total == 1 else plural}"
    return text


def joined(words: Sequence[str], limit: int = 3) -> str:
    """Words in a row, "a, b and c", or the first few and how many more there are."""
    if len(words) > limit:
        return f"{', '.join(words[: limit - 1])} and {len(words) - limit + 1} more"
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else list(words))
