"""The published description of the API: one path for each question, and the records of the answers as JSON schema."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import msgspec

from tierwise.answers.questions import QUESTIONS
from tierwise.explain import tenant
from tierwise.explain.tenant import ANSWER_VERSION

__all__ = ["ErrorAnswer", "schema"]

_REF: Final = "#/components/schemas/{name}"


class ErrorAnswer(msgspec.Struct, frozen=True):
    """Why there is no answer: the status code, Kubernetes' word for it, and a sentence."""

    code: int
    reason: str
    message: str


@cache
def schema() -> dict[str, Any]:
    """The API as an OpenAPI document."""
    answers = tuple(dict.fromkeys(question.answer for question in QUESTIONS))
    shown, components = msgspec.json.schema_components((*answers, ErrorAnswer), ref_template=_REF)
    schema_of = dict(zip((*answers, ErrorAnswer), shown, strict=True))
    paths: dict[str, Any] = {}
    for question in QUESTIONS:
        names = [part[1:-1] for part in question.path.split("/") if part.startswith("{")]
        parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
        for name, meaning in question.query.items():
            number = {"type": "integer", "minimum": 0}
            parameters.append(
                {"name": name, "in": "query", "required": False, "schema": number, "description": meaning}
            )
        operation: dict[str, Any] = {
            "operationId": question.name,
            "summary": question.summary,
            "parameters": parameters,
            "responses": {
                "200": _response(question.summary, schema_of[question.answer]),
                "default": _response("Why there is no answer.", schema_of[ErrorAnswer]),
            },
        }
        if question.method == "POST":
            manifests = {media: {"schema": {"type": "string"}} for media in ("application/yaml", "application/json")}
            operation["requestBody"] = {"required": True, "content": manifests}
        paths[question.path] = {question.method.lower(): operation}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "tierwise answers",
            "version": ANSWER_VERSION,
            "description": (tenant.__doc__ or "").strip(),
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": components,
        },
    }


def _response(description: str, answer: dict[str, Any]) -> dict[str, Any]:
    return {"description": description, "content": {"application/json": {"schema": answer}}}
