"""The table of labels and annotations: all that the code knows, of the types that it reads, and on the page."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable, Iterator
from importlib import import_module

import pytest
from tests.support.keys_page import PAGE, cap, page

import tierwise.api
import tierwise.dialects
from tierwise.admission import passed_over, validate
from tierwise.api import codec
from tierwise.api.codec import Raw
from tierwise.api.core import parse_time, read_number
from tierwise.api.duration import seconds
from tierwise.api.keys import PREFIX, Key, known_keys
from tierwise.api.unsupported import ANNOTATIONS, LABELS, PREFIXES
from tierwise.port import Objects

ROOMS = (tierwise.api, tierwise.dialects)
LEFT_OUT = re.compile(r"\.unsupported|\.workloads")
BESIDE = ("tierwise.controllers.pod_group", "tierwise.discovery.manifests", "tierwise.plugins.nodegroup")
FAMILIES = ("volcano.sh", "koordinator.sh", "x-k8s.io", "scheduling.sigs.k8s.io", "scheduling.k8s.io", "kai.scheduler")
SHAPE = re.compile(r"([a-z0-9.-]+)/[A-Za-z][A-Za-z0-9_.-]*")
VERSION = re.compile(r"v[0-9]")
ELSEWHERE = {
    "volcano.sh/numa-topology-policy",  # of kinds that a page of what is not supported lists
}


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | list | set | frozenset | dict):
        for item in value:
            yield from _texts(item)


def _known_to_the_code() -> set[str]:
    """Keys of the languages' families among the constants of modules that read objects."""
    rooms = (pkgutil.walk_packages(room.__path__, f"{room.__name__}.") for room in ROOMS)
    modules = [module.name for room in rooms for module in room if not LEFT_OUT.search(module.name)]
    found: set[str] = set()
    for name in (*modules, *BESIDE):
        constants = vars(import_module(name)).items()
        found.update(text for key, value in constants if not key.startswith("__") for text in _texts(value))
    return {text for text in found if _is_key(text)}


def _is_key(text: str) -> bool:
    shape = SHAPE.fullmatch(text)
    if shape is None or VERSION.match(text.partition("/")[2]):
        return False
    return any(shape[1] == family or shape[1].endswith(f".{family}") for family in FAMILIES)


def test_every_key_of_a_language_has_a_row() -> None:
    """What the code reads of other projects is in the table, or refused by name."""
    known, refused = _known_to_the_code(), ANNOTATIONS.keys() | LABELS.keys()
    beside = {text for text in known if text in refused or text.startswith(tuple(PREFIXES))}

    assert len(known) > 50
    assert set() == known - {key.name for key in known_keys()} - beside - ELSEWHERE


def test_the_page_is_made_from_the_table() -> None:
    """`python -m tests.support.keys_page` writes it."""
    assert page() == PAGE.read_text(encoding="utf-8")


def test_no_key_has_two_rows() -> None:
    """What is true of it is said once."""
    names = [key.name for key in known_keys()]

    assert sorted(set(names)) == sorted(names)


CHECKS: dict[str, Callable[[str], object]] = {
    "duration": lambda text: seconds(text) is not None,
    "time": parse_time,
    "number": lambda text: read_number(text) is not None,
    "true": lambda text: text in ("true", "false"),
    "JSON": json.loads,
}


@pytest.mark.parametrize("key", known_keys(), ids=lambda key: key.name)
def test_every_row_is_whole(key: Key) -> None:
    """It has a form, a cap and an example of its type; of choices it is one."""
    kind = re.split(r"[ ,]", key.type)[0]
    check = CHECKS.get(kind)

    assert all((key.on, key.type, key.owner, key.says, key.example, cap(key)))
    assert {"annotation", "label"} >= set(re.sub(r" on a \w+", "", key.form).split(", "))
    assert check is None or "share" in key.type or check(key.example.partition("@")[0]) is not False


def _group(marks: Raw) -> Raw:
    meta: Raw = {"name": "g", "namespace": "default", **marks}
    spec: Raw = {"subGroupPolicy": [{"name": "worker", "subGroupSize": 1}]}
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": meta, "spec": spec}


@pytest.mark.parametrize("key", [key for key in known_keys() if key.name.startswith(PREFIX)], ids=lambda key: key.name)
def test_examples_of_our_own_keys_pass_admission(key: Key) -> None:
    """What the page shows can be copied, and is read where the page says: as a label, as an annotation or as both."""
    name = key.name.replace("*", "worker")
    said = {}
    for form in ("label", "annotation"):
        manifest = _group({f"{form}s": {name: key.example}})
        objects = Objects.of([(codec.decode(manifest), manifest)])
        said[form] = [f.message for f in passed_over(objects)]
        assert [] == [f.message for f in validate(objects).errors if "tierwise.io" in f.path]

    assert {form: form not in key.form for form in said} == {form: bool(told) for form, told in said.items()}
