"""What may be concluded from a grid: profiles against the baseline, cell by cell with the same trace and seed.

- Over the whole grid: the ratio of sums (of a share: the difference of means), with a 95 % interval by bootstrap over
  pairs of cells.
- Over the seeds of one setting: the mean of paired differences with Student's interval; also beside the simple rule
  that is best in that setting and figure.

A verdict is given where there are six seeds and the interval excludes "no difference" after Holm's correction for all
that is shown together; otherwise no difference is shown, and the report says so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import lgamma

import msgspec
import numpy as np

from tierwise.model.arrays import Bools, Floats
from tierwise_lab.replay.report.table import CLOSENESS, COMPARED, DECISIVE, FIGURE
from tierwise_lab.replay.sweep.grid import PROFILE, SEED, Grid
from tierwise_lab.replay.sweep.results import CellResult

__all__ = [
    "FEW_SEEDS",
    "NO_DIFFERENCE",
    "Difference",
    "Pairs",
    "compared",
    "compared_by_setting",
    "holm",
    "p_of_t",
    "pairs",
]

SEEDS = 6
"""So many make a verdict."""
NO_DIFFERENCE, FEW_SEEDS = "no difference shown", f"fewer than {SEEDS} seeds"
LEVEL = 0.05
_DRAWS = 4000


class Difference(msgspec.Struct, frozen=True):
    """One figure of one profile beside the baseline."""

    profile: str
    figure: str  # its key
    setting: dict[str, str]  # empty for the whole grid
    pairs: int
    here: float | None  # mean
    there: float | None  # mean of the baseline
    value: float | None  # ratio of sums, or difference of means where `points`
    low: float | None
    high: float | None
    spread: float | None  # standard deviation of the paired differences
    p: float
    points: bool
    mean: float | None = None  # of the same over settings, each as large as any other
    verdict: str = ""


class Pairs(msgspec.Struct, frozen=True):
    """Figures of a profile and of the baseline in the same settings: (pairs x figures), and the setting of each."""

    profile: str
    here: Floats
    there: Floats
    settings: tuple[tuple[str, ...], ...]  # values of all axes but profile and seed
    seeds: int


def pairs(grid: Grid, results: Mapping[int, CellResult], rules: Sequence[str] = ()) -> list[Pairs]:
    """Every profile beside the baseline, or beside the best of these in each setting and figure, where all ended."""
    other_axes = [axis for axis in grid.axes if axis != PROFILE]
    by_profile = _by_profile(grid, results, other_axes)
    rules = rules or (grid.baseline,)
    bases = [by_profile.get(rule, {}) for rule in rules]
    setting_axes = [n for n, axis in enumerate(other_axes) if axis != SEED]
    all_pairs = []
    for profile, cells in by_profile.items():
        keys = sorted(set(cells).intersection(*bases))
        if profile not in rules and keys:
            settings = tuple(tuple(key[n] for n in setting_axes) for key in keys)
            seeds = min(settings.count(setting) for setting in set(settings))
            values_here, *values_there = (np.array([_row(side[key]) for key in keys]) for side in (cells, *bases))
            all_pairs.append(Pairs(profile, values_here, _best(np.stack(values_there), settings), settings, seeds))
    return all_pairs


def _by_profile(
    grid: Grid, results: Mapping[int, CellResult], other_axes: Sequence[str]
) -> dict[str, dict[tuple[str, ...], CellResult]]:
    """Cells that ended without an error: by profile, then by their values on the other axes."""
    cells: dict[str, dict[tuple[str, ...], CellResult]] = {}
    for cell in grid:
        result = results.get(cell.number)
        if result is not None and not result.error:
            values = tuple(cell.names[axis] for axis in other_axes)
            cells.setdefault(cell.names.get(PROFILE, ""), {})[values] = result
    return cells


def _best(sides: Floats, settings: Sequence[tuple[str, ...]]) -> Floats:
    """Of several (sides x pairs x figures), that with the best mean over the seeds of a setting, figure by figure."""
    best_values: Floats = sides[0].copy()
    sign = np.array([figure.better for figure in COMPARED])
    for of_setting in _by_setting(settings).values() if len(sides) > 1 else ():
        means = np.nan_to_num(sign * sides[:, of_setting].mean(axis=1), nan=-np.inf)
        best_values[of_setting] = np.take_along_axis(sides[:, of_setting], means.argmax(axis=0)[None, None, :], axis=0)[
            0
        ]
    return best_values


def _by_setting(settings: Sequence[tuple[str, ...]]) -> dict[tuple[str, ...], Bools]:
    """Which pairs each setting has, in the order of settings."""
    return {setting: np.array([candidate == setting for candidate in settings]) for setting in sorted(set(settings))}


def _row(result: CellResult) -> list[float]:
    return [np.nan if (v := result.figures.get(figure.key)) is None else v for figure in COMPARED]


def compared(pair: Pairs) -> list[Difference]:
    """Every figure over the whole grid; a draw is how often it has each pair, and none is kept."""
    number = len(pair.here)
    rng = np.random.default_rng(len(pair.here))
    every = ~(np.isnan(pair.here) | np.isnan(pair.there))
    sides = np.stack([np.where(every, pair.here, 0.0), np.where(every, pair.there, 0.0), every.astype(float)])
    draws = (np.bincount(rng.integers(number, size=number), minlength=number).astype(float) for _ in range(_DRAWS))
    sums = np.array([drawn @ sides for drawn in draws])
    settings = [(sides[:, of_setting].sum(axis=1)).T for of_setting in _by_setting(pair.settings).values()]
    differences = []
    for column, figure in enumerate(COMPARED):
        (values_here, values_there, _), is_finite, points = sides[:, :, column], every[:, column], figure.is_share
        samples = np.array([_value(*drawn, points=points) for drawn in sums[:, :, column].tolist()])
        samples = samples[np.isfinite(samples)]
        none = 0.0 if points else 1.0
        low, high = np.percentile(samples, (2.5, 97.5)) if len(samples) else (None, None)
        p = 2 * min(np.mean(samples <= none), np.mean(samples >= none)) if len(samples) else 1.0
        differences.append(
            Difference(
                pair.profile,
                figure.key,
                {},
                int(is_finite.sum()),
                _finite(values_here[is_finite].mean()) if is_finite.any() else None,
                _finite(values_there[is_finite].mean()) if is_finite.any() else None,
                _finite(
                    _value(float(values_here.sum()), float(values_there.sum()), float(is_finite.sum()), points=points)
                ),
                _finite(low),
                _finite(high),
                _finite(float(np.std((values_here - values_there)[is_finite], ddof=1)))
                if is_finite.sum() > 1
                else None,
                min(max(float(p), 1 / _DRAWS), 1.0),
                points,
                _mean([_value(*sums[column], points=points) for sums in settings]),
            )
        )
    return _judged(differences, pair.seeds)


def _mean(values: Sequence[float]) -> float | None:
    """Of those that are known."""
    finite_values = [value for value in values if np.isfinite(value)]
    if finite_values:
        return _finite(float(np.mean(finite_values)))
    return None


def _value(sum_here: float, sum_there: float, number_known: float, *, points: bool) -> float:
    """The ratio of two sums, or the difference of two means."""
    if points:
        return (sum_here - sum_there) / max(number_known, 1.0)
    return sum_here / sum_there if sum_there else np.nan


def compared_by_setting(grid: Grid, pair: Pairs) -> list[Difference]:
    """Every figure that a verdict is about, over the seeds of each setting."""
    axes = [axis for axis in grid.axes if axis not in (PROFILE, SEED)]
    differences = []
    for setting, of_setting in _by_setting(pair.settings).items():
        for column, figure in enumerate(COMPARED):
            values_here = pair.here[of_setting, column]
            values_there = pair.there[of_setting, column]
            apart = values_here - values_there
            if figure not in (*DECISIVE, CLOSENESS) or len(apart) < 2 or np.isnan(apart).any():
                continue
            mean = float(apart.mean())
            spread = float(apart.std(ddof=1))
            error = spread / len(apart) ** 0.5
            reach = error * _t(len(apart) - 1)
            differences.append(
                Difference(
                    pair.profile,
                    figure.key,
                    dict(zip(axes, setting, strict=True)),
                    len(apart),
                    float(values_here.mean()),
                    float(values_there.mean()),
                    mean,
                    mean - reach,
                    mean + reach,
                    spread,
                    p_of_t(mean / error, len(apart) - 1) if error else float(mean == 0),
                    True,
                )
            )
    return _judged(differences, pair.seeds)


def _judged(differences: Sequence[Difference], seeds: int) -> list[Difference]:
    """With a verdict each, corrected for all of them."""
    judged = []
    for difference, sure in zip(differences, holm([difference.p for difference in differences]), strict=True):
        none = 0.0 if difference.points else 1.0
        less = difference.value is not None and difference.value < none
        figure = FIGURE[difference.figure]
        verdict = figure.words[less != (figure.better < 0)]
        if seeds < SEEDS:
            verdict = FEW_SEEDS
        elif not sure:
            verdict = NO_DIFFERENCE
        judged.append(msgspec.structs.replace(difference, verdict=verdict))
    return judged


def holm(chances: Sequence[float]) -> list[bool]:
    """Which of several chances are small enough together, by Holm's steps down."""
    rejected = [False] * len(chances)
    order = sorted(range(len(chances)), key=lambda n: chances[n])
    for rank, number in enumerate(order):
        if chances[number] > LEVEL / (len(chances) - rank):
            break
        rejected[number] = True
    return rejected


_REACH, _STEPS = 400.0, 400_001


@cache
def _upper(freedom: int) -> tuple[Floats, Floats]:
    """Student's distribution from 0 on: places, and the chance of less."""
    x = np.linspace(0.0, _REACH**0.5, _STEPS) ** 2
    scale = np.exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / (freedom * np.pi) ** 0.5
    density = scale * (1 + x**2 / freedom) ** (-(freedom + 1) / 2)
    area = np.concatenate(([0.0], np.cumsum(np.diff(x) * (density[1:] + density[:-1]) / 2)))
    return x, 0.5 + area


def p_of_t(t: float, freedom: int) -> float:
    """How likely a Student's t at least so far from 0 is by chance."""
    x, below = _upper(freedom)
    return float(max(2 * (1 - np.interp(abs(t), x, below)), 0.0))


def _t(freedom: int) -> float:
    """The value that 95 % lie within."""
    x, below = _upper(freedom)
    return float(np.interp(1 - LEVEL / 2, below, x))


def _finite(value: float | None) -> float | None:
    if value is None or not np.isfinite(value):
        return None
    return round(float(value), 6)
