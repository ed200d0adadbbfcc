"""The mark that a job puts on what it makes."""

from tierwise.api.codec import Object, Raw
from tierwise.api.volcano import Job
from tierwise.dialects.volcano_job import uid_of

__all__ = ["is_owned", "owner_reference"]


def owner_reference(job: Job) -> Raw:
    """The owner reference to a job: whatever carries it is deleted with the job."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": job.metadata.name,
        "uid": uid_of(job),
        "controller": True,
        "blockOwnerDeletion": True,
    }


def is_owned(record: Object, job: Job) -> bool:
    """Whether an object carries the mark of a job."""
    return any((o.kind, o.uid) == ("Job", uid_of(job)) for o in record.metadata.owner_references)
