"""The options that say where a topology comes from: `topology generate` and `topology diff` share them."""

from __future__ import annotations

import msgspec

from tierwise.cli.options import option

__all__ = ["SourceOptions"]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Where a topology comes from, word for word; lists run from the innermost tier outwards."""

    origin: str = option(
        "--from KIND[:PLACE]",
        "slurm, csv, json: a file, or - for standard input. ufm: an address. label, hypernodes, topograph, aws and "
        "other presets: manifests.  [default: the preset whose labels the nodes carry]",
        default="",
    )
    preset: str = option(
        "--preset NAME", "Node labels to read: aws, azure, coreweave, gke, nebius, oke, topograph.", default=""
    )
    fabric: str = option("--fabric NAME", "The fabric of the hyperNodes, where there are several.", default="")
    name_prefix: str = option("--name-prefix TEXT", "Put before the name of every hyperNode.", default="")
    tier_names: tuple[str, ...] = option(
        "--tier-names NAME,...", "tierNames, innermost first.", default="", read=_words
    )
    host_column: str = option("--host-column NAME", "csv, json: the column of the hosts.", default="")
    tiers: tuple[str, ...] = option("--tiers NAME,...", "csv, json: columns, innermost first.", default="", read=_words)
    topology: str = option("--topology NAME", "slurm: which topology of a topology.yaml.", default="")
    insecure: bool = option("--insecure-skip-verify", "ufm: do not check the certificate.")
    timeout: float = option("--timeout SECONDS", "ufm: how long to wait.", default=30.0, least=0.1)
