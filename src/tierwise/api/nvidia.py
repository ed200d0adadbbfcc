"""NVIDIA's ComputeDomains (`resource.nvidia.com`), as far as a scheduler looks at them.

A domain lets pods on several nodes share memory over NVLink. Its pods name the template of claims that it makes, and
each claim is for the channel of a node.
"""

from tierwise.api.core import Int, ObjectMeta, Record

__all__ = ["ComputeDomain"]


class TemplateReference(Record, frozen=True):
    """A template of claims, in the namespace of the domain."""

    name: str = ""


class ComputeDomainChannel(Record, frozen=True):
    """How pods join a domain."""

    resource_claim_template: TemplateReference = TemplateReference()


class ComputeDomainSpec(Record, frozen=True):
    """How many nodes a domain has, and how pods join it."""

    num_nodes: Int = 0
    channel: ComputeDomainChannel = ComputeDomainChannel()


class ComputeDomain(Record, frozen=True):
    """Pods that share memory over NVLink."""

    metadata: ObjectMeta
    spec: ComputeDomainSpec = ComputeDomainSpec()
