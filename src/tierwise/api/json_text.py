"""JSON text to plain data: one value, one per line, or one after the other.

Called by the manifest loader. msgspec reads every value; the standard library only finds where the next one begins,
and says where a text is broken. Of keys given twice in a JSON object the last one counts, as for kubectl.
"""

import json
from collections.abc import Iterator
from typing import Final

import msgspec

from tierwise.api.errors import InputError

__all__ = ["values"]

_SPACE: Final = " \t\r\n"


def values(data: bytes, *, file: str) -> list[object]:
    """Every value of a text; InputError names the file, and line and column where the text is broken."""
    try:
        try:
            return [msgspec.json.decode(data)] if data.strip() else []
        except msgspec.DecodeError:
            return _by_line(data) or list(_in_sequence(data.decode(), file))
    except RecursionError:
        raise InputError("nested too deeply", file=file) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("the text is not UTF-8", file=f"{file}:{line}") from None


def _by_line(data: bytes) -> list[object]:
    """One value per line, or nothing where a line holds something else."""
    decode = msgspec.json.Decoder().decode
    try:
        return [decode(line) for line in data.splitlines() if line.strip()]
    except msgspec.DecodeError:
        return []


def _in_sequence(text: str, file: str) -> Iterator[object]:
    """Values with nothing but white space between them."""
    scan = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=_refuse).raw_decode
    end = _skip_space(text, 0)
    while end < len(text):
        start = end
        try:
            _, end = scan(text, start)
            yield msgspec.json.decode(text[start:end])
        except json.JSONDecodeError as error:
            raise InputError(error.msg, file=f"{file}:{error.lineno}:{error.colno}") from None
        except (msgspec.DecodeError, ValueError) as error:
            line = text.count("\n", 0, start) + 1
            raise InputError(str(error), file=f"{file}:{line}") from None
        end = _skip_space(text, end)


def _skip_space(text: str, position: int) -> int:
    while position < len(text) and text[position] in _SPACE:
        position += 1
    return position


def _refuse(constant: str) -> object:
    raise ValueError(f"{constant} is not JSON")
