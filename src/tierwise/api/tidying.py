"""Raw data put in order: before it is decoded a second time, and after it was encoded.

Called by the codec only. Copies, never changes what it is given; knows no kinds.
"""

from typing import Final

__all__ = ["lists", "tidy"]

_TEXT_MAPS: Final = frozenset({"labels", "annotations", "matchLabels", "nodeSelector", "data"})
_LIST_MAPS: Final = frozenset({"plugins"})


def tidy(value: object) -> object:
    """A copy without nulls; in maps of texts null becomes the empty text, in maps of lists the empty list.

    That is how the API server reads them: a job plugin without arguments is asked for all the same.

    The unquoted True and False of conditions become texts: so common in hand-written YAML, and so clear, that they
    are read as what they stand for.
    """
    if isinstance(value, list):
        return [tidy(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: _tidied(name, item) for name, item in value.items() if item is not None}


def lists(value: object) -> object:
    """A copy with lists for tuples: what a manifest read from a file would hold."""
    if isinstance(value, dict):
        return {name: lists(item) for name, item in value.items()}
    return [lists(item) for item in value] if isinstance(value, list | tuple) else value


def _tidied(name: object, item: object) -> object:
    if name == "raw":
        return item  # a pod template as it was written, put there by the codec
    if name in _TEXT_MAPS and isinstance(item, dict):
        return {key: "" if text is None else tidy(text) for key, text in item.items()}
    if name in _LIST_MAPS and isinstance(item, dict):
        return {key: [] if entries is None else tidy(entries) for key, entries in item.items()}
    if name == "conditions" and isinstance(item, list):
        return [tidy(_with_text_status(condition)) for condition in item]
    return tidy(item)


def _with_text_status(condition: object) -> object:
    if isinstance(condition, dict) and isinstance(condition.get("status"), bool):
        return {**condition, "status": str(condition["status"])}
    return condition
