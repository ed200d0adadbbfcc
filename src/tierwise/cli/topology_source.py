"""The options that say where a topology comes from, and the hyperNodes that come of it.

Shared by `topology generate` and `topology diff`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Final

import click
import msgspec
from msgspec import convert

from tierwise.api.errors import InputError

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.discovery.tree import Discovered, Remark, Tree
    from tierwise.fetch.origin import Origin
    from tierwise.port import Objects

__all__ = ["Found", "Wish", "find", "options"]

_USERNAME: Final = "TIERWISE_UFM_USERNAME"
_PASSWORD: Final = "TIERWISE_UFM_PASSWORD"
_TOKEN: Final = "TIERWISE_UFM_TOKEN"


class Wish(msgspec.Struct, frozen=True):
    """What was asked for on the command line, word for word; lists run from the innermost tier outwards."""

    origin: str
    name_prefix: str
    tier_names: tuple[str, ...]
    host_column: str
    tiers: tuple[str, ...]
    topology: str
    insecure: bool
    timeout: float


class Found(msgspec.Struct, frozen=True):
    """What came of it: the tree and its hyperNodes, and the kind of source that they are marked with."""

    source: str
    origin: str
    tree: Tree
    hypernodes: list[Raw]


def options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of a `Wish`, which the command receives as one."""

    @wraps(command)
    def gathered(*args: object, **words: object) -> None:
        wish = convert({field.name: words.pop(field.name) for field in msgspec.structs.fields(Wish)}, Wish)
        command(*args, wish=wish, **words)

    decorated: Callable[..., None] = gathered
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def _words(_ctx: click.Context, _param: click.Parameter, value: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in value.split(",") if word.strip())


_FROM: Final = (
    "label, topograph, hypernodes: manifests. slurm, csv, json: a file, or - for standard input. ufm: an address."
)
_OPTIONS: Final = (
    click.option("--from", "origin", required=True, metavar="KIND[:PLACE]", help=_FROM),
    click.option("--name-prefix", default="", metavar="TEXT", help="Put before the name of every hyperNode."),
    click.option("--tier-names", default="", callback=_words, metavar="NAME,...", help="tierNames, innermost first."),
    click.option("--host-column", default="", metavar="NAME", help="csv, json: the column of the hosts."),
    click.option(
        "--tiers", default="", callback=_words, metavar="NAME,...", help="csv, json: columns, innermost first."
    ),
    click.option("--topology", default="", metavar="NAME", help="slurm: which topology of a topology.yaml."),
    click.option("--insecure-skip-verify", "insecure", is_flag=True, help="ufm: do not check the certificate."),
    click.option(
        "--timeout", type=click.FloatRange(min=0.1), default=30.0, metavar="SECONDS", help="ufm: how long to wait."
    ),
)


def find(filenames: Sequence[str], wish: Wish) -> tuple[Found, Objects]:
    """The topology of a source, and the objects that were given beside it; remarks go to standard error."""
    from tierwise.cli.inputs import load
    from tierwise.cli.main import complain
    from tierwise.fetch.origin import FROM_MANIFESTS
    from tierwise.port import Objects

    origin = _origin(wish)
    given = [*filenames, *([origin.place] if origin.kind in FROM_MANIFESTS and origin.place else [])]
    if origin.kind in FROM_MANIFESTS and not given:
        raise click.UsageError(f"{origin.kind} reads manifests: give -f FILE, or --from {origin.kind}:FILE")
    objects = load(given) if given else Objects()
    if origin.kind == "label":
        return _from_labels(objects, origin, wish), objects
    discovered = _fetched(origin, objects)
    for remark in discovered.warnings:
        complain(f"warning: {remark}")
    _refuse(discovered.errors)
    return _named(discovered, origin, wish), objects


def _origin(wish: Wish) -> Origin:
    from tierwise.fetch.origin import FROM_MANIFESTS, KINDS, Origin
    from tierwise.fetch.ufm import Ufm

    kind, _, place = wish.origin.partition(":")
    if kind not in KINDS:
        raise click.UsageError(f'--from: "{kind}" is none of {", ".join(KINDS)}')
    if not place and kind not in FROM_MANIFESTS:
        raise click.UsageError(f"--from: {kind} needs a place, as in {kind}:{'ADDRESS' if kind == 'ufm' else 'FILE'}")
    secrets = {"username": _USERNAME, "password": _PASSWORD, "token": _TOKEN}
    known = {name: os.environ.get(variable, "") for name, variable in secrets.items()}
    server = Ufm(place, **known, verify=not wish.insecure, timeout=wish.timeout) if kind == "ufm" else None
    return Origin(kind, place, wish.host_column, wish.tiers, wish.topology, server)


def _fetched(origin: Origin, objects: Objects) -> Discovered:
    from tierwise.cli.progress import patience
    from tierwise.fetch.origin import discover
    from tierwise.fetch.ufm import FetchError

    with patience(f"reading {origin}"):
        try:
            return discover(origin, objects, sys.stdin)
        except FetchError as error:
            raise InputError(str(error)) from None


def _refuse(errors: Sequence[Remark]) -> None:
    """All that is wrong, one line each: whoever mends a file wants to see the rest too."""
    from tierwise.cli.main import complain

    for remark in errors[:-1]:
        complain(str(remark))
    if errors:
        raise InputError(errors[-1].text, file=errors[-1].where or None)


def _named(discovered: Discovered, origin: Origin, wish: Wish) -> Found:
    from msgspec.structs import replace

    from tierwise.discovery.manifests import hypernodes
    from tierwise.discovery.naming import names

    tree = discovered.tree
    if wish.tier_names:
        if len(wish.tier_names) > len(tree.tiers):
            raise click.UsageError(f"--tier-names: {len(wish.tier_names)} names for {len(tree.tiers)} tiers")
        named = zip(tree.tiers, wish.tier_names, strict=False)
        tree = replace(tree, tier_names={**tree.tier_names, **dict(named)})
    return Found(origin.kind, str(origin), tree, hypernodes(tree, names(tree, wish.name_prefix), origin.kind))


def _from_labels(objects: Objects, origin: Origin, wish: Wish) -> Found:
    """HyperNodes as the label controller makes them: it has names of its own, and keeps those that exist."""
    from tierwise.api import codec
    from tierwise.api.core import ConfigMap, Node
    from tierwise.api.volcano import HyperNode
    from tierwise.controllers.discovery_label import wanted
    from tierwise.dialects.discovery import read_label_source
    from tierwise.discovery import from_hypernodes

    if wish.name_prefix or wish.tier_names:
        raise click.UsageError("label discovery names hyperNodes and tiers itself: no --name-prefix, no --tier-names")
    manifests = wanted(objects)
    if manifests is None:
        configs = [source for c in objects.every(ConfigMap).values() if (source := read_label_source(c)) is not None]
        faults = [fault for source in configs for fault in source.faults]
        raise InputError(faults[0] if faults else "no configuration enables label discovery", file=str(origin))
    records = [codec.decode(raw) for raw in manifests]
    found = [record for record in records if isinstance(record, HyperNode)]
    discovered = from_hypernodes.read(found, objects.every(Node).values())
    _refuse(discovered.errors)  # such as a node that two networks claim
    return Found(origin.kind, str(origin), discovered.tree, manifests)
