"""Objects that a job's plugins create beside its pods: created while the job wants pods, deleted afterwards.

Called by the job controller. An object of the same name with another owner is never touched.
"""

from __future__ import annotations

from collections.abc import Iterator

from tierwise.api.codec import Object, Raw
from tierwise.api.volcano import Job
from tierwise.controllers.job.job_pods import is_owned
from tierwise.controllers.job.plugins import OwnedObject, owned_objects
from tierwise.port import Create, Delete, Effect, Objects, Update, key_of_raw

__all__ = ["made", "reconcile_owned_objects"]


def reconcile_owned_objects(objects: Objects, job: Job, *, wanted: bool) -> Iterator[Effect]:
    """Create, update or delete what the plugins of a job with its defaults filled in want."""
    for prop in owned_objects(job):
        key = key_of_raw(prop.raw)
        record, present = objects.record(key), objects.raw(key)
        if record is None or present is None:
            if wanted:
                yield Create(prop.raw)
        elif not is_owned(record, job) or record.metadata.deletion_timestamp:
            continue
        elif not wanted:
            yield Delete(key)
        elif _differs(prop, present):
            yield Update(key, {**present, **{field: prop.raw[field] for field in prop.follows}})


def made(objects: Objects, job: Job) -> Iterator[Object]:
    """What of it is there."""
    for prop in owned_objects(job):
        record = objects.record(key_of_raw(prop.raw))
        if record is not None and is_owned(record, job):
            yield record


def _differs(prop: OwnedObject, present: Raw) -> bool:
    return any(present.get(field) != prop.raw[field] for field in prop.follows)
