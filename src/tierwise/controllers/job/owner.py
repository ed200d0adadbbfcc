"""The mark that a job puts on what it makes."""

from tierwise.api.codec import Raw
from tierwise.api.volcano import Job
from tierwise.dialects.volcano_job import uid_of

__all__ = ["owner_reference"]


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
