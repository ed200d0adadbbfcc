"""Which extension points a plugin implements: declared by the plugin, checked when a profile that names it is read.

`@takes_part(Filter, Scorer)` decorates a plugin class, `@chooses(Plain, Hierarchical)` a function that
constructs one of several such classes. The class is checked against its declaration: a method that is missing, has
other parameters, looks like a misspelt method of a point, or belongs to a point that is not declared is an error that
names plugin and method. So a typo never results in a plugin that does nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from typing import Final, TypeVar

import msgspec

from tierwise.api.errors import InputError, suggestion
from tierwise.framework import extension
from tierwise.framework.extension import RENAMED, SEAM, Mark, Part, Purpose, VictimFilter, moved

__all__ = [
    "MARKS",
    "METHODS",
    "POINTS",
    "Declaration",
    "Idle",
    "check_declaration",
    "check_plugin",
    "chooses",
    "declared",
    "takes_part",
    "wrong_attribute",
]

T = TypeVar("T", bound=Callable[..., object])
C = TypeVar("C", bound=type)

_MARK: Final = "__tierwise_plugin__"


class _Points(dict[str, type]):
    """Extension points by name; one that does not exist is told as a declaration of it would be."""

    def __missing__(self, name: str) -> type:
        raise KeyError(_unknown(name))


def _unknown(name: str) -> str:
    return moved(name) or f"{name} is not an extension point{suggestion(name, POINTS)}"


POINTS: Final = _Points(
    (name, point)
    for name in extension.__all__
    if getattr(point := getattr(extension, name), "_is_protocol", False) and isinstance(point, type)
)
"""Every extension point by its name."""

_METHODS: Final[dict[type, dict[str, Mark]]] = {
    point: {name: value.mark for name, value in vars(point).items() if hasattr(value, "mark")}
    for point in POINTS.values()
}
"""The methods of each point, with what is said of them."""

METHODS: Final[dict[str, type]] = {name: point for point, marks in _METHODS.items() for name in marks}
"""The point that each method belongs to."""

MARKS: Final[dict[str, Mark]] = {name: mark for marks in _METHODS.values() for name, mark in marks.items()}
"""What is said of each method."""

_NEAR: Final = 0.85
"""How similar a method's name must be to one of a point to count as a misspelling of it."""


class Declaration(msgspec.Struct, frozen=True):
    """What a plugin declares: its extension points, and its arguments as the fields of a struct."""

    points: tuple[type, ...]
    arguments: type[msgspec.Struct] | None = None
    methods: frozenset[str] = frozenset()  # those of the points that the plugin has, and that count
    makes: tuple[type, ...] = ()  # of a function: the classes that it chooses between
    ignores_names: bool = False  # see `takes_part`
    rises_with_use: bool = False  # the same
    scores_by_shape: bool = False  # the same
    by_priority: bool = False  # the same
    by_amounts: bool = False  # the same

    @property
    def names(self) -> tuple[str, ...]:
        """The points by name."""
        return tuple(point.__name__ for point in self.points)

    @property
    def switches(self) -> frozenset[str]:
        """The switches by which a profile may disable parts of it."""
        return frozenset(switch for method in self.methods for switch in MARKS[method].switches)

    @property
    def argument_names(self) -> tuple[str, ...]:
        """The arguments as a profile spells them."""
        fields = msgspec.structs.fields(self.arguments) if self.arguments is not None else ()
        return tuple(field.encode_name for field in fields)

    def wrong_argument(self, arguments: Mapping[str, object]) -> tuple[str, str] | None:
        """The first argument that cannot be parsed, and why; None if all can."""
        names = self.argument_names
        for name in arguments:
            if name not in names:
                return str(name), f"unknown argument{suggestion(str(name), names)}"
        if self.arguments is None:
            return None
        try:
            msgspec.convert(arguments, self.arguments)
        except msgspec.ValidationError as error:
            message, _, path = str(error).partition(" - at `$.")
            name = path.rstrip("`") or message.split("`")[1]  # a field that is missing has no path
            return name, (message[:1].lower() + message[1:]).replace("`", "")
        return None


class Idle:
    """What a plugin function returns if the plugin has nothing to do: an object with no extension points."""


def takes_part(
    *points: type,
    arguments: type[msgspec.Struct] | None = None,
    ignores_names: bool = False,
    rises_with_use: bool = False,
    scores_by_shape: bool = False,
    by_priority: bool = False,
    by_amounts: bool = False,
) -> Callable[[C], C]:
    """Declare the points that a plugin's class takes part in, and the arguments that a profile may give it.

    `arguments` is a struct: the names, types and defaults of its fields are those of the arguments.

    Three promises let thousands of pods be served together (decision 0098); without them a plugin is asked about each
    pod. `ignores_names`: its gates and orders do not distinguish plain pods of one queue, priority and shape by name,
    number or age. `rises_with_use`: while a queue or job uses more, its key never falls, and a no to it stays a no.
    `scores_by_shape`: of a task without a constraint its scores read the shape alone, neither job nor queue.

    `by_priority`: its keys of jobs begin with their priority. What runs in part goes first among jobs of which that
    number is the same (decision 0115).

    `by_amounts`: plans of evictions are kept from one preemptor to the next that is like it (decision 0260). Its quotas
    follow from the job's queue, the amounts asked for, and what queues hold. What it says of victims where a gang
    preempts follows from them, from what their jobs hold and have ready, from the budgets over them, and from the
    preemptor's queue, priority, shapes, need and holdings: neither from names nor from any other job or queue.
    """

    def declare(plugin: C) -> C:
        declaration = Declaration(
            points,
            arguments,
            _methods_of(plugin, points),
            ignores_names=ignores_names,
            rises_with_use=rises_with_use,
            scores_by_shape=scores_by_shape,
            by_priority=by_priority,
            by_amounts=by_amounts,
        )
        setattr(plugin, _MARK, declaration)
        return plugin

    return declare


def chooses(*classes: type, arguments: type[msgspec.Struct] | None = None) -> Callable[[T], T]:
    """Declare the classes that a function chooses between; it may also return `Idle`."""

    def declare(factory: T) -> T:
        declarations = [declaration for kind in classes if (declaration := declared(kind)) is not None]
        points = tuple(dict.fromkeys(point for declaration in declarations for point in declaration.points))
        methods = frozenset(method for declaration in declarations for method in declaration.methods)
        setattr(factory, _MARK, Declaration(points, arguments, methods, classes))
        return factory

    return declare


def _methods_of(plugin: type, points: tuple[type, ...]) -> frozenset[str]:
    """The methods by which a class takes part in points."""
    marks = {}
    for point in points:
        for name, mark in _METHODS.get(point, {}).items():
            marks[name] = mark
    hints = {name: mark.beside for name, mark in marks.items() if mark.part is Part.HINT}
    false = {hint for hint, answer in hints.items() if not _describes(plugin, hint, answer)}
    return frozenset(name for name in marks if getattr(plugin, name, None) is not None and name not in false)


def _describes(plugin: type, hint: str, answer: str) -> bool:
    """Whether a hint comes from the class that the answer comes from which it describes.

    Whoever inherits a hint and answers otherwise has promised nothing.
    """
    by, of = (next((kind for kind in plugin.__mro__ if name in vars(kind)), None) for name in (hint, answer))
    return by is of


def declared(factory: object) -> Declaration | None:
    """What a class or function itself declares, not its base classes; None if nothing."""
    declaration = getattr(factory, "__dict__", {}).get(_MARK)
    return declaration if isinstance(declaration, Declaration) else None


def check_plugin(name: str, factory: object) -> Declaration:
    """The declaration of a plugin in a table of plugins; InputError if it is wrong."""
    declaration = check_declaration(name, factory)
    if not callable(factory) or not (isinstance(factory, type) or declaration.makes):
        raise InputError(f"plugin {name}: {_called(factory)} is neither a class nor a function")
    try:
        inspect.signature(factory).bind(None, None)
    except TypeError:
        raise InputError(f"plugin {name}: {_called(factory)} must take (arguments, view)") from None
    except ValueError:  # no signature to be had: written in another language
        pass
    return declaration


def check_declaration(name: str, factory: object) -> Declaration:
    """What a class declares, checked without its constructor; InputError where the declaration does not hold."""
    declaration = declared(factory)
    if declaration is None or not (declaration.points or declaration.makes):
        how = "takes_part above its class does" if isinstance(factory, type) else "chooses above the function does"
        raise InputError(f"plugin {name}: {_called(factory)} declares no extension point: {how}")
    for point in declaration.points:
        if point not in _METHODS:
            raise InputError(f"plugin {name}: {_unknown(getattr(point, '__name__', repr(point)))}")
    if declaration.arguments is not None and not _is_struct(declaration.arguments):
        raise InputError(f"plugin {name}: arguments of {_called(factory)} must be a msgspec.Struct")
    for kind in declaration.makes:
        check_declaration(name, kind)
    if isinstance(factory, type):
        for point in declaration.points:
            _check_point(name, factory, point)
        _check_others(name, factory, declaration.points)
    return declaration


def _is_struct(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, msgspec.Struct)


def _check_point(name: str, plugin: type, point: type) -> None:
    """Check that a class has the methods and attributes that a point requires."""
    marks = _METHODS[point]
    has = [method for method in marks if getattr(plugin, method, None) is not None]
    needed = [method for method, mark in marks.items() if mark.part is Part.REQUIRED]
    either = [method for method, mark in marks.items() if mark.part is Part.EITHER]
    if either and not any(method in has for method in either):
        needed += either[:1] if len(either) == 1 else [" or ".join(either)]
    for method in (*needed, *(marks[method].beside for method in has)):
        if method and method not in has:
            other_names = [
                attribute for attribute in dir(plugin) if not attribute.startswith("_") and attribute not in METHODS
            ]
            text = f"{plugin.__name__} takes part in {point.__name__}, but has no method {method}"
            near = next(
                (hint for alternative in method.split(" or ") if (hint := suggestion(alternative, other_names))), ""
            )
            old = next((name for name in other_names if RENAMED.get(name) == method), None)
            near = f" ({old} is called so since version {SEAM} of the plugin seam)" if old is not None else near
            raise InputError(f"plugin {name}: {text}{near}")
    for method in has:
        member = getattr(plugin, method)
        if not callable(member):
            raise InputError(f"plugin {name}: {plugin.__name__}.{method} is not a method")
        if inspect.iscoroutinefunction(member):
            raise InputError(f"plugin {name}: {plugin.__name__}.{method} is async, and nothing awaits it")
        _check_parameters(name, plugin, point, method)
    for attribute in getattr(point, "__annotations__", {}):
        if not hasattr(plugin, attribute) and attribute not in _annotated(plugin):
            text = f"{plugin.__name__} takes part in {point.__name__}, but has no attribute {attribute}"
            raise InputError(f"plugin {name}: {text}")
    if point is VictimFilter:
        wrong = wrong_attribute(plugin)
        if wrong:
            raise InputError(f"plugin {name}: {plugin.__name__}: {wrong}")


def _annotated(plugin: type) -> set[str]:
    """The attributes that a class or one of its bases annotates."""
    return {name for kind in plugin.__mro__ for name in vars(kind).get("__annotations__", {})}


def wrong_attribute(plugin: object) -> str:
    """The fault in the attributes of a victim filter, or of its class as far as set there; "" if there is none."""
    of_class = isinstance(plugin, type)
    answers: object = getattr(plugin, "answers", frozenset() if of_class else None)
    counts = getattr(plugin, "counts", False if of_class else None)
    if of_class and (inspect.isdatadescriptor(answers) or inspect.isdatadescriptor(counts)):
        return ""  # slots and properties of a class are set by its instances
    if not isinstance(answers, frozenset) or not all(isinstance(purpose, Purpose) for purpose in answers):
        return f"answers must be a frozenset of purposes, not {answers!r}"
    if isinstance(counts, bool):
        return ""
    return f"counts must be true or false, not {counts!r}"


def _check_parameters(name: str, plugin: type, point: type, method: str) -> None:
    """Check that a method can be called as its point calls it, with the same parameter names.

    An unused parameter may have a leading underscore. Names in another order would mean swapped arguments.
    """
    parameters = _parameters(point, method)
    positional = [p.name for p in parameters if p.kind is not p.KEYWORD_ONLY]
    bound = isinstance(inspect.getattr_static(plugin, method), staticmethod | classmethod)
    arguments = positional if bound else ["self", *positional]
    try:
        called = inspect.signature(getattr(plugin, method)).bind(
            *arguments, **{p.name: p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        )
    except TypeError:
        fits = False
    except ValueError:  # no signature to be had: written in another language
        return
    else:
        fits = all(
            value == "self" or parameter.strip("_") in ("", value)
            for parameter, value in called.arguments.items()
            if isinstance(value, str)  # what *args and **kwargs take is fine
        )
    if not fits:
        spelled = ", ".join(p.name if p.kind is not p.KEYWORD_ONLY else f"{p.name}=…" for p in parameters)
        text = f"{plugin.__name__}.{method} must take ({spelled}), as {point.__name__} calls it"
        raise InputError(f"plugin {name}: {text}")


@cache
def _parameters(point: type, method: str) -> tuple[inspect.Parameter, ...]:
    """Parameters of a method of an extension point, without `self`."""
    return tuple(inspect.signature(getattr(point, method)).parameters.values())[1:]


def _check_others(name: str, plugin: type, points: tuple[type, ...]) -> None:
    """Check that no method belongs to a point that is not declared, or seems to be one that the class lacks."""
    from difflib import get_close_matches

    missing = [method for method in METHODS if not hasattr(plugin, method)]
    for attribute in dir(plugin):
        if attribute.startswith("_") or not callable(getattr(plugin, attribute, None)):
            continue
        if attribute in METHODS:
            if METHODS[attribute] not in points:
                text = f"{plugin.__name__}.{attribute} belongs to {METHODS[attribute].__name__}, which is not declared"
                raise InputError(f"plugin {name}: {text}")
            continue
        near = get_close_matches(attribute.lower(), missing, n=1, cutoff=_NEAR)
        if near:
            point = METHODS[near[0]]
            lacks = "a method" if point in points else "the method"
            declare = "" if point in points else ", which is not declared"
            how = "spell it so" if point in points else "declare it and spell it so"
            text = f"{plugin.__name__}.{attribute} is nearly {near[0]}, {lacks} of {point.__name__}{declare}"
            raise InputError(f"plugin {name}: {text}: {how}, or begin the name with _")


def _called(factory: object) -> str:
    return getattr(factory, "__name__", None) or type(factory).__name__
