"""A snapshot that was kept equals one that is read from scratch, whichever field of whichever object has changed."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from msgspec.structs import replace
from tests.support.depth import examples, seeds, size
from tests.support.field_walk import HISTORY_IN, PARTS, changes, world

from tierwise.api.codec import Object
from tierwise.config.profile import DEFAULT
from tierwise.port import Key, Objects
from tierwise.snapshot.builder import Reader, build
from tierwise.snapshot.consistency import differences

PROFILE = replace(DEFAULT, action_arguments={"allocate": {"runHistory": HISTORY_IN}})


def put(objects: Objects, key: Key, record: Object) -> Objects:
    """The objects with another record of one of them."""
    return objects.updated({key: (record, None)}, (), objects.version + 1)


@pytest.mark.parametrize("part", PARTS)
def test_after_each_field_that_changes(part: str) -> None:
    """Each field of each type is set, changed, removed and as it was again: a few of them, in a deep run all."""
    objects, reader, pick = world(part), Reader(PROFILE), Random(part)
    reader.read(objects, 0.0)
    found = []
    for key in pick.sample([*objects], size(len([*objects]), len([*objects]), quick=4)):
        record = objects.record(key)
        assert record is not None
        every = [*changes(record)]
        for path, records in pick.sample(every, size(5, len(every), quick=1)):
            for other in records:
                objects = put(objects, key, other)
                kept, fresh = reader.read(objects, 0.0), build(objects, 0.0, PROFILE)
                found += [(key, path, name) for name in differences(kept, fresh)]

    assert [] == found


@pytest.mark.parametrize("part", PARTS)
def test_after_each_object_that_goes_and_comes_back(part: str) -> None:
    """Nodes, pods, gangs, declarations: each is deleted, and put again as another record."""
    objects, reader = world(part), Reader(PROFILE)
    reader.read(objects, 0.0)
    keys = [*objects]
    found = []
    for key in Random(part).sample(keys, size(len(keys), len(keys), quick=4)):
        record = objects.record(key)
        assert record is not None
        for changed in (objects.updated({}, [key], objects.version + 1), put(objects, key, replace(record))):  # type: ignore[type-var]
            objects = changed
            found += [(key, name) for name in differences(reader.read(objects, 0.0), build(objects, 0.0, PROFILE))]

    assert [] == found


@pytest.mark.parametrize("part", PARTS)
@given(pick=seeds())
@examples(4)
def test_after_any_of_them_in_any_order(part: str, pick: Random) -> None:
    """Changes lie one over the other: several objects at once, each in several fields, gone and back."""
    objects, reader = world(part), Reader(PROFILE)
    keys = [*objects]
    for _ in range(4):
        puts: dict[Key, tuple[Object, None]] = {}
        for key in pick.sample(keys, pick.choice([1, 1, 3])):
            record = objects.record(key) or world(part).record(key)
            assert record is not None
            _, records = pick.choice([*changes(record)])
            puts[key] = pick.choice(records), None
        gone = [key for key in pick.sample(keys, 3) if key not in puts and pick.random() < 0.3]
        objects = objects.updated(puts, gone, objects.version + 1)

        assert [] == differences(reader.read(objects, 0.0), build(objects, 0.0, PROFILE))
