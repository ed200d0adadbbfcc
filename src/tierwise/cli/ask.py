"""`tierwise ask`: questions about the jobs of one namespace, answered by a running scheduler.

For users who may not list the whole cluster. `why`, `eta`, `top` and `what-if` ask the same where their user may not.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
import msgspec

from tierwise.cli.live_state import LiveCluster
from tierwise.cli.options import ListOutput, Output, argument, option, verb

if TYPE_CHECKING:
    from tierwise.api.errors import InputError
    from tierwise.explain.page import Page, Text
    from tierwise.explain.text.tenant import TenantAnswer

__all__ = ["AnswersService", "ask", "ask_for", "check_may_ask_instead"]

_QUESTIONS: Final = ("jobs", "why", "why-pod", "start", "position", "help", "history", "queues", "fits", "dry-run")
_ABOUT_ONE: Final = ("why", "why-pod", "start", "position", "help", "history")


class AnswersService(msgspec.Struct, frozen=True, kw_only=True):
    """Where a running scheduler answers users of one namespace."""

    answers: str | None = option(
        "--answers URL",
        "Where the scheduler answers users who may not list the cluster, as https://HOST:PORT.",
        env="TIERWISE_ANSWERS",
    )
    answers_ca: Path | None = option(
        "--answers-ca FILE",
        "Authorities of its certificate.  [default: those of the system]",
        env="TIERWISE_ANSWERS_CA",
    )
    answers_name: str = option(
        "--answers-name NAME",
        "The name in its certificate, where that is not the host of the URL.",
        default="",
        env="TIERWISE_ANSWERS_NAME",
    )

    def ask(
        self, cluster: LiveCluster, namespace: str, question: str, name: str = "", body: bytes = b""
    ) -> TenantAnswer:
        """The answer to a question about a namespace; InputError where there is none."""
        import asyncio

        from tierwise.answers.questions import QUESTIONS
        from tierwise.api.errors import InputError
        from tierwise.cli.connection import connect
        from tierwise.explain.text.tenant import TenantAnswer as Answers
        from tierwise.kube.answers import answers_access, ask_once

        if not self.answers:
            raise InputError("say where the scheduler answers (or set TIERWISE_ANSWERS)", field="--answers")
        try:
            authorities = self.answers_ca.read_text() if self.answers_ca is not None else ""
        except (OSError, UnicodeError) as error:
            raise InputError(f"it cannot be read: {error}", file=str(self.answers_ca), field="--answers-ca") from None
        row = next(row for row in QUESTIONS if row.name == question)
        names = {"namespace": namespace, "job": name, "pod": name}
        own_access = connect(cluster.kubeconfig, cluster.context)
        access = answers_access(own_access, self.answers, authorities, self.answers_name)
        answer: TenantAnswer = msgspec.json.decode(
            asyncio.run(ask_once(access, row.method, row.path, names, body)), type=Answers
        )
        return answer


def ask_for(
    service: AnswersService,
    cluster: LiveCluster,
    output: Output | ListOutput,
    namespace: str,
    question: str,
    name: str = "",
    body: bytes = b"",
) -> None:
    """Print the answer to a question, in the form that was asked for."""
    from tierwise.explain.text.tenant import tenant_lines

    answer = service.ask(cluster, namespace, question, name, body)

    def wire() -> dict[str, object]:
        plain: dict[str, object] = msgspec.to_builtins(answer)
        return plain

    def lines(page: Page) -> list[Text]:
        return tenant_lines(page, answer)

    if isinstance(output, Output):
        output.show(wire, lines)
    else:
        output.show(wire, lines, lambda: [f"{namespace}/{name}" if name else namespace])


def check_may_ask_instead(service: AnswersService, error: InputError) -> None:
    """Return where the scheduler may be asked instead of reading a cluster that the user may not list.

    Raises the error anew where it is another one, or where no answers API is named: then with the way to name one.
    """
    from tierwise.api.errors import MayNotListError

    if isinstance(error, MayNotListError) and not service.answers:
        hint = "users of one namespace ask the scheduler with --answers URL (or TIERWISE_ANSWERS)"
        raise MayNotListError(f"{error.message}; {hint}", file=error.file) from None
    if not isinstance(error, MayNotListError):
        raise error


@verb(
    """
  kubectl tierwise ask jobs -n team-a --answers https://127.0.0.1:8443 --answers-ca ca.crt
  kubectl tierwise ask why train -n team-a
  kubectl tierwise ask start train -n team-a -o json
  kubectl tierwise ask dry-run -n team-a -f job.yaml
"""
)
def ask(
    *,
    question: str = argument("QUESTION", choices=_QUESTIONS),
    job: str | None = argument("[JOB|POD]"),
    namespace: str = option("-n --namespace NAME", "Of the jobs.", default="default"),
    filename: Path | None = option("-f --filename FILE", "Manifests of a dry run; - for standard input."),
    cluster: LiveCluster,
    service: AnswersService,
    output: Output,
) -> None:
    """Ask a running scheduler about the jobs of one namespace, as a user who may not list the cluster.

    QUESTION is one of jobs, why, why-pod, start, position, help, history, queues, fits and dry-run. The scheduler
    answers with `tierwise run --answers`; it finds out by the token of the kubeconfig who asks, and who may list the
    pods of the namespace is answered. Nothing is changed.
    """
    if question in _ABOUT_ONE and job is None:
        raise click.UsageError(f"{question} needs the name of a job{' or pod' if question == 'why-pod' else ''}")
    if question not in _ABOUT_ONE and job is not None:
        raise click.UsageError(f"{question} is about the whole namespace, and takes no name")
    if (question == "dry-run") != (filename is not None):
        raise click.UsageError("-f FILE goes with the question dry-run, and only with it")
    body = _manifests(filename) if filename is not None else b""
    ask_for(service, cluster, output, namespace, question, name=job or "", body=body)


def _manifests(file: Path) -> bytes:
    from tierwise.api.errors import InputError

    if str(file) == "-":
        return sys.stdin.buffer.read()
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(error.strerror or str(error), file=str(file)) from None
