"""`tierwise bench`: run the benchmarks and print them beside their goals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import click
import msgspec

from tierwise.cli.options import option, verb
from tierwise.cli.screen import print_data

if TYPE_CHECKING:
    from tierwise_lab.bench.measure import Row

__all__ = ["bench"]

_MARKS = {True: "✓", False: "✗"}
_NARROWEST = 120
"""Columns that the table needs; it is not squeezed where a file or a pipe has no width of its own."""


@verb(
    """
  tierwise bench --quick
  tierwise bench --row P1a --row C3
""",
    decides=True,
)
def bench(
    *,
    quick: bool = option("--quick", "Fewer repeats: under a minute instead of a few."),
    output: str = option("-o --output", choices=("text", "json", "yaml"), default="text"),
    wanted: tuple[str, ...] = option("--row ID", "Only this row; may be given more than once."),
    data: str | None = option(
        "--data FOLDER", "Where lingjun_topology.csv and philly_jobs.csv are; S3 then replays these."
    ),
    check: bool = option("--check", "Exit with 1 if a gate is missed."),
    scale: int | None = option("--scale NODES", "No rows, but one line of the scale sheet for this size.", least=16),
) -> None:
    """Measure the scheduler on this machine, through its public cycle function.

    Rows, workloads and goals are described in docs/benchmarks.md.
    """
    if scale is not None:
        _print_scale(scale, output)
        return
    # Imported here, so that other commands do not pay for it.
    from tierwise_lab.bench.lab import FULL, QUICK, Lab
    from tierwise_lab.bench.measure import facts
    from tierwise_lab.bench.rows import ROWS, chosen

    try:
        names = chosen(wanted)
    except KeyError as error:
        from tierwise.api.errors import suggestion

        text = f"no row {error.args[0]} (there are {', '.join(ROWS)}){suggestion(str(error.args[0]), ROWS)}"
        raise click.BadParameter(text, param_hint="--row") from error
    lab = Lab(QUICK if quick else FULL, data)
    rows = []
    for name in names:
        click.echo(f"measuring {name}", err=True)
        rows.append(ROWS[name](lab))
    if output != "text":
        print_data({"rows": [row.record() for row in rows], "machine": facts()}, output)
    else:
        _print_table(rows, facts())
    if check and not all(row.gate_met for row in rows):
        raise SystemExit(1)


def _print_scale(nodes: int, output: str) -> None:
    from tierwise_lab.bench.scale import measure_scale

    scale = measure_scale(nodes)
    if output != "text":
        print_data(msgspec.to_builtins(scale), output)
        return
    click.echo(
        f"{scale.nodes:,} nodes, {scale.pods:,} pods: read {scale.read:.2f} s, cycle {scale.cycle:.2f} s, "
        f"a pod that ends {scale.change * 1e3:.1f} ms, a pod that comes {scale.pod * 1e3:.1f} ms, "
        f"{scale.memory / 2**20:,.0f} MiB"
    )


def _print_table(rows: Sequence[Row], machine: Mapping[str, str | int]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), title_justify="left")
    table.add_column("id", no_wrap=True)
    table.add_column("what")
    for name in ("measured", "gate", "stretch"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        sign = "≤" if row.goal.most else "≥"
        stretch = (
            "" if row.goal.stretch is None else f"{_MARKS[bool(row.stretch_met)]} {sign} {_number(row.goal.stretch)}"
        )
        gate = f"{_MARKS[row.gate_met]} {sign} {_number(row.goal.gate)}"
        table.add_row(row.id, row.what, _number(row.measured), gate, stretch)
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = _NARROWEST
    console.print(table)
    cores = f"{machine['cores']} cores" if machine["cores"] != 1 else "1 core"
    console.print(f"{machine['cpu']}, {cores}, Python {machine['python']}, NumPy {machine['numpy']}")


def _number(value: float) -> str:
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
