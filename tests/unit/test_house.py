"""The measure of weight and plain words counts what it says, and ceilings are only lowered."""

import tomllib
from pathlib import Path

import pytest
from tools import house

ROOT = Path(__file__).parents[2]

_HEAVY = '''"""What this is for."""


def pick(pods, found, *, by):
    """The same for pods."""
    rest = [pod for pod in pods if pod.waits and not pod.held] or found
    return 1 if rest else 2 if by else 3
'''


def _package(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_heavy_function_is_counted(tmp_path: Path) -> None:
    """Branches of conditions, comprehensions, filters and operands add up; vague names and openings are noticed."""
    total = house.measure([_package(tmp_path, heavy=_HEAVY)])

    assert [7] == [number for number, _ in total.functions]
    assert (1, 1, 2, 5) == (total.comprehensions, total.chained, total.vague, total.names.total())
    assert {"The same": 1, "What": 0} == dict(total.openings)
    assert 3 == total.lines


def test_tokens_do_not_depend_on_line_breaks(tmp_path: Path) -> None:
    """A call over four lines has the tokens of one line, and comments and docstrings have none."""
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    flat = house.measure([_package(tmp_path / "one", a="total = add(1, 2, 3)\n")])
    broken = house.measure(
        [_package(tmp_path / "two", a='"""Sum."""\n\n# of three\ntotal = add(\n    1, 2,\n    3)\n')]
    )

    assert (10, 1) == (flat.tokens, flat.lines)
    assert (10, 3) == (broken.tokens, broken.lines)


def test_a_function_with_sixteen_branches_is_counted(tmp_path: Path) -> None:
    """The bound itself is allowed."""
    functions = (f"def f{n}():\n" + "    if a: b\n" * n for n in (house.MANY_BRANCHES - 1, house.MANY_BRANCHES))

    assert 1 == house.measure([_package(tmp_path, a="\n".join(functions))]).many_branches


def test_the_recorded_ceilings_name_every_figure() -> None:
    """No figure is measured and not held, and none is held that is not measured."""
    ceilings = tomllib.loads((ROOT / "tools" / "house.toml").read_text(encoding="utf-8"))

    assert list(house.figures(house.Measure())) == list(ceilings)


def test_ceilings_are_lowered_and_never_raised() -> None:
    """A figure above its ceiling is a fault, which recording does not hide."""
    ceilings, numbers = {"a": 5.0, "b": 5.0}, {"a": 3.0, "b": 6.5}

    assert ["b is 6.5, and may be 5 at most"] == house.exceeded(numbers, ceilings)
    assert {"a": 3.0, "b": 5.0} == house.lowered(numbers, ceilings)


def test_a_ceiling_that_is_exceeded_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit status is 1 then, and recording lowers the other ceilings alone."""
    package = _package(tmp_path, a="found = 1\n")
    ceilings = tmp_path / "ceilings.toml"
    ceilings.write_text("# At most.\nvague-names-percent = 3\ntokens-per-line = 9.5\n")

    assert 1 == house.main([str(package), "--ceilings", str(ceilings), "--record"])
    assert "vague-names-percent is 100, and may be 3 at most" in capsys.readouterr().err
    assert "# At most.\nvague-names-percent = 3\ntokens-per-line = 3\n" == ceilings.read_text()
