"""Options of verbs, each declared once: as the parameter that receives it, or as a field of a group of options.

The annotation says what click converts to, and whether an option is a flag, may be repeated, or is required. A group is
a struct with options for fields; a verb that has a parameter of its type has its options. A record of another room may
be a group as well: what its annotations say of a field (`msgspec.Meta`) makes the option.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce, wraps
from operator import or_
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Final, Literal, Union, get_args, get_origin, get_type_hints

import click
import msgspec

from tierwise.api.core import parse_time

if TYPE_CHECKING:
    from tierwise.explain.page import Page, Text

    Wire = Callable[[], Mapping[str, object]]
    Lines = Callable[[Page], Sequence[Text]]

__all__ = [
    "FILES",
    "Format",
    "Journal",
    "ListOutput",
    "Output",
    "argument",
    "at",
    "config",
    "everything",
    "filenames",
    "nodes",
    "now",
    "option",
    "optional_filenames",
    "printed",
    "seconds",
    "text_of",
    "verb",
]


class _Declared(msgspec.Struct, frozen=True):
    """Declaration of a parameter beyond its type: form, help, default and bounds."""

    form: str
    text: str = ""
    default: object = None  # shown behind the help, unless the help tells it
    least: float | None = None
    most: float | None = None
    above: float | None = None  # the least, and itself not allowed
    choices: Sequence[str] = ()
    read: Callable[[str], object] | None = None  # makes a value of a text; ValueError where it is none
    kind: click.Path | None = None  # where the word FILE and the annotation Path do not say all
    required: bool = False  # without a default, one word is required in any case
    env: str | None = None

    def parameter(self, name: str, hint: object) -> click.Parameter:
        """The option or argument for click."""
        alternatives = get_args(hint)
        optional = NoneType in alternatives
        several = get_origin(hint) is tuple and self.read is None
        plain = next((kind for kind in alternatives if kind is not NoneType), hint) if optional or several else hint
        flags = [word for word in self.form.split() if word.startswith("-")]
        metavar = next((word for word in self.form.split() if not word.startswith("-")), None)
        kind = self.kind or self._kind(plain, metavar)
        if not flags:
            nargs = -1 if several else 1
            return click.Argument([name], type=kind, nargs=nargs, required=not (optional or several), metavar=metavar)
        usual: dict[str, Any] = {} if self.default is None else {"default": self.default}
        return click.Option(
            [*flags, name],
            type=kind,
            is_flag=True if plain is bool else None,  # with False, click takes the option without its value
            multiple=several or get_origin(hint) is list,
            required=self.required or (not optional and plain in (str, int, float) and not several and not usual),
            show_default=bool(self.default) and "[default:" not in self.text,
            callback=self._convert if self.read is not None else None,
            metavar=metavar,
            envvar=self.env,
            help=self.text,
            **usual,
        )

    def _kind(self, plain: object, metavar: str | None) -> Any:
        if self.choices:
            return click.Choice(self.choices)
        if plain in (int, float) and (self.least, self.most, self.above) != (None, None, None):
            kind: Any = click.IntRange if plain is int else click.FloatRange
            low = self.least if self.above is None else self.above
            return kind(min=low, max=self.most, min_open=self.above is not None)
        if metavar == "FILE" or plain is Path:
            return click.Path(allow_dash=True, path_type=Path if plain is Path else None)
        if plain in (int, float, bool) and self.read is None:
            return plain
        return str

    def _convert(self, ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        assert self.read is not None
        try:
            if isinstance(value, tuple):
                return [self.read(item) for item in value]
            return None if value is None else self.read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None


def option(form: str, text: str = "", **settings: Any) -> Any:
    """An option: its flags with the word for its value ("-f --filename FILE"), its help, and fields of `_Declared`."""
    return _Declared(form, text, **settings)


def argument(metavar: str = "", **settings: Any) -> Any:
    """A positional argument; its annotation says whether it is optional, and whether there may be several."""
    return _Declared(metavar, **settings)


def verb(
    examples: str, name: str | None = None, *, decides: bool = False
) -> Callable[[Callable[..., None]], click.Command]:
    """A command with the options that the parameters of its function declare; `examples` end its help.

    One that `decides` where pods go refuses to run without the solver.
    """

    def made(function: Callable[..., None]) -> click.Command:
        hints = get_type_hints(function)
        defaults = function.__kwdefaults__ or {}
        hints.pop("return", None)

        @wraps(function)
        def called(**values: Any) -> None:
            if decides:
                from tierwise.framework.solver import load_solver

                load_solver()
            function(**{key: _gathered(key, hint, values) for key, hint in hints.items()})

        params: list[click.Parameter] = []
        for key, hint in hints.items():
            params.extend(_parameters(key, hint, defaults))
        return click.command(name, params=params, epilog=f"\b\nExamples:{examples}")(called)

    return made


_BOUNDS: Final = (("least", "ge"), ("most", "le"), ("above", "gt"))


def _is_group(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, msgspec.Struct)


def _parameters(name: str, hint: Any, defaults: Mapping[str, object]) -> Iterator[click.Parameter]:
    """The options of a parameter: its own, or those of its group."""
    if _is_group(hint):
        own = {field.name: field.default for field in msgspec.structs.fields(hint)}
        for field, kind in get_type_hints(hint, include_extras=True).items():
            yield from _parameters(field, kind, own)
        return
    declared = defaults[name]
    if not isinstance(declared, _Declared):
        declared, hint = _described(name, hint, declared)
    yield declared.parameter(name, hint)


def _described(name: str, hint: Any, default: object) -> tuple[_Declared, Any]:
    """The option of a field by its annotation, and its plain type."""
    metas = [meta for meta in getattr(hint, "__metadata__", ()) if isinstance(meta, msgspec.Meta)]
    kind = get_args(hint)[0] if metas else hint
    for alternative in get_args(kind):
        metas += getattr(alternative, "__metadata__", ())
    extra: dict[str, Any] = {}
    for meta in metas:
        extra |= meta.extra or {}
    form = f"{extra.get('flags', '--' + name.replace('_', '-'))} {extra.get('word', '')}"
    bounds: Any = {
        ours: next((v for m in metas if (v := getattr(m, theirs)) is not None), None) for ours, theirs in _BOUNDS
    }
    choices = get_args(kind) if get_origin(kind) is Literal else ()
    text = next((meta.description for meta in metas if meta.description), "")
    default_value = None if default is msgspec.NODEFAULT else default
    return _Declared(form, text, default_value, choices=choices, **bounds), str if choices else _plain(kind)


def _plain(kind: Any) -> Any:
    """A type without what is annotated of the parts of a union."""
    if get_origin(kind) is not UnionType and get_origin(kind) is not Union:
        return kind
    parts = [
        get_args(alternative)[0] if hasattr(alternative, "__metadata__") else alternative
        for alternative in get_args(kind)
    ]
    return reduce(or_, parts)


def _gathered(name: str, hint: Any, values: Mapping[str, Any]) -> Any:
    """The value of a parameter: its own, or its group of those of its fields."""
    if not _is_group(hint):
        return values[name]
    return hint(**{field: _gathered(field, kind, values) for field, kind in get_type_hints(hint).items()})


def seconds(text: str) -> float:
    """Seconds for a duration as Go writes it."""
    from tierwise.api.duration import seconds as read

    time = read(text)
    if time is None or time < 0:
        raise ValueError(f'"{text}" is not a duration such as 90s or 1h30m')
    return time


def text_of(file: str) -> str:
    """The text of a file, or of standard input for a hyphen; InputError where it cannot be read."""
    from tierwise.api.errors import InputError

    try:
        with click.open_file(file, encoding="utf-8") as opened:
            return str(opened.read())
    except OSError as error:
        raise InputError(error.strerror or str(error), file=file) from None
    except UnicodeDecodeError:
        raise InputError("the text is not UTF-8", file=file) from None


FILES: Final = "Manifests: a YAML or JSON file, a folder of them, or - for standard input. May be repeated."

filenames: Any = option("-f --filename FILE", FILES, required=True)
optional_filenames: Any = option("-f --filename FILE", FILES)
"""Manifests, where they are not all that a command can work on."""

nodes: Any = option(
    "--nodes N",
    "Add N nodes of 8 GPUs, in racks of four, where the manifests hold no nodes.",
    least=1,
    most=100_000,
)
config: Any = option(
    "--config FILE",
    "Scheduler configuration: a SchedulerProfile, Volcano's (volcano-scheduler.conf) or a KubeSchedulerConfiguration.",
)
now: Any = option(
    "--now TIME",
    "The time of the run (RFC 3339). Default: the newest time in the manifests, else 2026-01-01T00:00:00Z; never the "
    "clock, so that a run can be repeated.",
    read=parse_time,
)
at: Any = option("--at TIME", "The last cycle that was not after this time (RFC 3339).", read=parse_time)
everything: Any = option("--all", "Show everything; fold and omit nothing.")
printed: Any = option("--print", "Print what is to be written to a cluster, as manifests.")
"""Results of programs on nodes for people, and for other programs."""


_DATA: Final = ("json", "yaml")
_FORMATS: Final = ("text", "wide", *_DATA, "name")


def _format(text: str) -> str:
    if text in _FORMATS or text.startswith("jsonpath="):
        return text
    from tierwise.api.errors import suggestion

    raise ValueError(f'"{text}" is none of {", ".join(_FORMATS)} and jsonpath=TEMPLATE{suggestion(text, _FORMATS)}')


class Format(msgspec.Struct, frozen=True, kw_only=True):
    """Whether people or programs are answered."""

    output_format: str = option("-o --output", "For people or for programs.", choices=("text", *_DATA), default="text")

    @property
    def for_programs(self) -> bool:
        return self.output_format in _DATA

    def show(self, wire: Wire, lines: Lines, *, everything: bool = False) -> None:
        """Print an answer: as JSON or YAML, or as the lines of a page."""
        from tierwise.cli.screen import print_data, print_page

        if self.for_programs:
            print_data(wire(), self.output_format)
        else:
            print_page(lines, everything=everything)


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """Options for the output: its format, and how much is shown."""

    everything: bool = everything
    format: Format

    @property
    def for_programs(self) -> bool:
        return self.format.for_programs

    def show(self, wire: Wire, lines: Lines) -> None:
        self.format.show(wire, lines, everything=self.everything)

    def tell_early(self, lines: Lines) -> None:
        """Tell people on standard error what is known before the answer; programs get the answer alone."""
        if self.for_programs:
            return
        from tierwise.cli.screen import page_of

        for line in lines(page_of(everything=self.everything)):
            click.echo(line.plain, err=True)


class ListOutput(msgspec.Struct, frozen=True, kw_only=True):
    """Options for output of lists, as kubectl prints them: also wide, names alone, or by a template."""

    everything: bool = everything
    form: str = option(
        "-o --output FORMAT",
        "text, wide, json, yaml, name, or jsonpath=TEMPLATE, a template of kubectl's kind over the JSON.",
        default="text",
        read=_format,
    )

    def show(self, wire: Wire, lines: Lines, names: Callable[[], Sequence[str]]) -> None:
        """Print an answer in the form that was asked for; `names` are those of what it is about."""
        from tierwise.cli.screen import print_data, print_page

        kind, _, template = self.form.partition("=")
        match kind:
            case "json" | "yaml":
                print_data(wire(), kind)
            case "name":
                for name in names():
                    click.echo(name)
            case "jsonpath":
                from tierwise.cli.jsonpath import filled

                click.echo(filled(template, wire()), nl=False)
            case _:
                print_page(lines, everything=self.everything or kind == "wide", wide=kind == "wide")


class Journal(msgspec.Struct, frozen=True):
    """Where cycles are recorded, and how much of them is kept."""

    journal: Path | None = option(
        "--journal DIR",
        "Write what each cycle sees and decides to this folder, for `tierwise replay` and `tierwise serve`."
        "  [default: nowhere]",
        kind=click.Path(path_type=Path, file_okay=False),
    )
    journal_size: int = option(
        "--journal-size MIB",
        "How large the journal may become; the oldest cycles are deleted.",
        default=256,
        least=1,
    )
