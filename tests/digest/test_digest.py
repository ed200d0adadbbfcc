"""The digest of decisions: the same at every run, and plain about what is better and what is worse."""

from __future__ import annotations

import pytest
from tests.digest.decisions import Line, Measure, Measures, changes, decided, read_lines
from tests.digest.scenes import KINDS, cases

FEW = ("two-level-unlike/0", "nested-unlike/0", "gathered-sizes/0", "fabrics-soft/0", "evicting-gangpreempt/0")


def test_a_scene_is_decided_alike_at_every_run() -> None:
    """A line depends on nothing but the scene, and is read as it was written."""
    made = [(name, make) for name, make in cases(len(KINDS)) if name in FEW]
    lines = [decided(name, make) for name, make in made]

    assert sorted(FEW) == sorted(line.name for line in lines)
    assert [] == [line.name for line in lines if "raised" in line.decision]
    assert lines == [decided(name, make) for name, make in made] == read_lines(map(str, lines))


def test_more_scenes_leave_the_first_ones_as_they_are() -> None:
    """Each kind has a scene at least, and a larger digest has those of a smaller one."""
    few, many = ([name for name, _ in cases(number)] for number in (1, 3000))

    assert [f"{kind}/0" for kind in KINDS] == few
    assert set(few) < set(many)


def _line(decision: str, gangs: dict[str, Measure] | None = None, victims: int = 0) -> Line:
    return Line("nested-unlike/7", decision, Measures(gangs or {}, victims), decision)


ONE, TWO = Measure(4, 0, (1,), 0, (1, 1)), Measure(4, 0, (2,), 0, (1, 2))


@pytest.mark.parametrize(
    ("before", "after", "verdict", "why"),
    [
        (_line("+n0=g", {"g": TWO}), _line("+n1=g", {"g": ONE}), "better", "g: tier 2 -> 1"),
        (_line("+n0=g", {"g": ONE}), _line("?g:never", {}), "worse", "g: bound 4 -> 0"),
        (_line("+n0=g", {"g": ONE, "h": TWO}), _line("+n1=g", {"g": TWO, "h": ONE}), "mixed", ""),
        (_line("+n0=g", {"g": ONE}), _line("+n1=g", {"g": ONE}), "moved", ""),
        (_line("-a<g:x", {"g": ONE}, 1), _line("-b<g:x -c<g:x", {"g": ONE}, 2), "worse", "victims 1 -> 2"),
        (_line("?g:never:A*1"), _line("?g:not-now:A*1"), "reasons", "?g:never:A*1 -> ?g:not-now:A*1"),
    ],
)
def test_what_has_changed_is_judged_by_tier_then_domains_then_victims(
    before: Line, after: Line, verdict: str, why: str
) -> None:
    """The first measure that differs decides for a gang; pods that merely stand elsewhere are neither."""
    (change,) = changes([before], [after])

    assert (verdict, True) == (change.verdict, why in change.why)
    assert [] == changes([before], [before])
