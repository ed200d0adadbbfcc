"""Why a hyperNode comes before others that hold a gang as well, in words."""

from __future__ import annotations

from collections.abc import Sequence

from tierwise.api.plurals import several
from tierwise.framework.report import Term

__all__ = ["because"]

_WORDS = {
    Term.NOMINATED: "the gang's pods are nominated there",
    Term.PROPOSED: "it is recommended",
    Term.TOGETHER: "more of the gangs behind this one have a place then, or a closer one",
    Term.RESERVED: "the others leave no room for reservations",
    Term.TIED: "volumes, claims or affinity tie the gang's pods to one place",
    Term.EVICTED: "room is made there",
    Term.HOST: "it has the best host for the pod",
    Term.SIBLINGS: "the gang's other {parts} have their places beside it",
    Term.FREE_NOW: "it has room now, not only once releases are over",
    Term.PREVIOUS: "it is nearest to where the {part} ran before",
    Term.NEAR: "it is nearest to the gang's other pods",
    Term.SURPLUS: "the pods beyond the minimum fit there, or closest to it",
    Term.LEAVES: "the fewest innermost hyperNodes are enough there",
    Term.PARTS: "it suits the other parts of its set best",
    Term.PLACES: "it takes least from later gangs",
    Term.SCORE: "it has the highest score",
    Term.SURPLUS_ROOM: "it has most room for pods beyond the minimum",
    Term.NAME: "nothing else tells them apart",
}


def because(name: str, terms: Sequence[Term], part: str, *, always: bool = False) -> str:
    """Why this hyperNode comes first; nothing where scores alone show it, unless it is `always` told.

    `part` is how the language of the gang calls one of its parts.
    """
    if not terms or (tuple(terms) == (Term.SCORE,) and not always):
        return ""
    return f"{name} comes first by {', '.join(terms)}: {_WORDS[terms[0]].format(part=part, parts=several(part))}"
