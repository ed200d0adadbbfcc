"""`tierwise attention`: what deserves an operator's attention now."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from tierwise.cli.inputs import Inputs
from tierwise.cli.options import ListOutput, verb

if TYPE_CHECKING:
    from tierwise.api.codec import Raw
    from tierwise.port import Objects

__all__ = ["attention"]


@verb("""
  kubectl tierwise attention
  tierwise attention -f cluster.yaml
  tierwise attention -f state.json -o json | jq '.concerns[] | select(.code == "OverShare")'
""")
def attention(*, inputs: Inputs, output: ListOutput) -> None:
    """Show what deserves attention: overdue jobs, queues over their share, domains with several bad nodes, and more.

    Looks at the state as it is, and schedules nothing. What only a running scheduler knows (evictions of one job over
    time, slow searches and writes) is told by its page and its metrics. Ends with status 1 where there is something.
    """
    from tierwise.explain import attention as concerns
    from tierwise.explain.text.attention import attention_lines
    from tierwise.sim.what_if.runs import prepared

    inputs_read = inputs.read()
    seen = concerns.Seen(certificates=dict(_certificates(inputs_read.objects)))
    snapshot = prepared(*inputs_read[:3]).snapshot()
    result = concerns.attention(snapshot, None, inputs_read.profile, seen)
    output.show(
        lambda: concerns.attention_wire(result),
        lambda page: attention_lines(page, result),
        lambda: [f"{concern.kind.lower()}/{concern.name}" for concern in result.concerns],
    )
    if result.concerns:
        click.get_current_context().exit(1)


def _certificates(objects: Objects) -> Iterator[tuple[str, float]]:
    """When the certificates of TLS secrets end; what is no certificate is left to those who use it."""
    texts = {key.path: text for key in objects if key.kind == "Secret" and (text := _tls(objects.raw(key)))}
    if not texts:
        return
    try:
        from tierwise.runtime.certificates import expires
    except ImportError:
        click.echo("tierwise: certificates are not looked at: install tierwise with the extra `kube`", err=True)
        return
    for path, text in texts.items():
        try:
            yield f"Secret {path}", expires(base64.b64decode(text)).timestamp()
        except (ValueError, binascii.Error):
            continue


def _tls(raw: Raw | None) -> str:
    """The certificate in a secret, as it is written there; "" where there is none."""
    data = raw.get("data") if raw is not None and raw.get("type") == "kubernetes.io/tls" else None
    text = data.get("tls.crt") if isinstance(data, dict) else None
    return text if isinstance(text, str) else ""
