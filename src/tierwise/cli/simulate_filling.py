"""`tierwise simulate` on nodes whose GPUs are shared: how much of them is allocated once so much has arrived."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from tierwise.api.errors import InputError
from tierwise.cli.progress import patience
from tierwise.cli.screen import print_json, print_page
from tierwise.explain.page import Page
from tierwise.explain.tables import Column, table
from tierwise.replay.filling import POLICIES, Filling, order
from tierwise.replay.openb import WHOLE, read_nodes, read_pods
from tierwise.replay.readers import Table, read_table

__all__ = ["fill"]


def fill(nodes: Table, trace: str, profiles: Sequence[str], *, load: float, seed: int, output_format: str) -> None:
    """Fill the nodes under every profile, and print what came of it."""
    names, empty = read_nodes(nodes)
    pods = read_pods(read_table(trace))
    gpus = int(empty.left.sum()) // WHOLE
    arriving = order(pods, load, gpus, seed).tolist()
    fillings = [_run(Filling(names, empty, pods, _known(profile)), arriving) for profile in dict.fromkeys(profiles)]
    inputs = {"nodes": len(names), "gpus": gpus, "arrived_load": load, "pods": len(arriving), "seed": seed}
    if output_format == "json":
        print_json({"inputs": inputs, "outcomes": [filling.outcome() for filling in fillings]})
    else:
        print_page(lambda page: _lines(page, fillings, gpus, load))


def _known(profile: str) -> str:
    if profile not in POLICIES:
        known = ", ".join(POLICIES)
        raise InputError(f"{profile} cannot share GPUs (these can: {known})", field="--profile")
    return profile


def _run(filling: Filling, arriving: Sequence[int]) -> Filling:
    with patience(f"filling, {filling.policy}", len(arriving)) as progress:
        for kind in arriving:
            filling.arrive(kind)
            progress(filling.arrived)
    return filling


def _lines(page: Page, fillings: Sequence[Filling], gpus: int, load: float) -> list[Text]:
    head = f"pods arrived that ask for {100 * load:g} % of {gpus:,} GPUs"
    columns = (Column("profile"), *(Column(t, right=True) for t in ("pods", "refused", "GPUs", "allocated")))
    rows = [
        (f.policy, f"{f.arrived:,}", f"{f.arrived - f.placed:,}", f"{f.allocated:,.1f}", f"{100 * f.allocation:.2f} %")
        for f in fillings
    ]
    return [Text(head, style="bold"), Text(), *table(page, columns, rows)]
