"""What a plugin says of itself is held against its class when a profile that names it is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec
import pytest

from tierwise.api.errors import InputError
from tierwise.config.volcano import ARGUMENTS
from tierwise.framework.declaration import MARKS, METHODS, POINTS, Idle, check_plugin, chooses, takes_part
from tierwise.framework.extension import MOVED, SEAM, Arguments, CycleView
from tierwise.plugins import PLUGINS


def _made(self: object, arguments: Arguments, view: CycleView) -> None:
    """How every plugin is made."""


def _class(points: tuple[type, ...], methods: Mapping[str, object]) -> type:
    return takes_part(*points)(type("Mine", (), {"__init__": _made, **methods}))


def _refused(factory: object) -> str:
    with pytest.raises(InputError) as caught:
        check_plugin("mine", factory)
    return str(caught.value)


class _Unknown:
    pass


class Filtre:
    """Nearly the name of a point."""


async def _later(self: object, job: object) -> None:
    """What nothing awaits."""


GATE, ORDER, SPACE = POINTS["Gate"], POINTS["JobOrder"], POINTS["SearchSpace"]
SCORER, VICTIMS = POINTS["Scorer"], POINTS["VictimFilter"]
FILTER, QUOTA = POINTS["Filter"], POINTS["Quota"]


def _scores(**more: object) -> dict[str, object]:
    """The methods that a scorer must have, and more."""
    return {
        "effect": lambda self, ask: None,
        "stale": lambda self, ask, row: None,
        "score": lambda self, ask, span, fits: None,
        **more,
    }


@pytest.mark.parametrize(
    ("points", "methods", "text"),
    [
        ((), {}, "Mine declares no extension point: takes_part above its class does"),
        ((_Unknown,), {}, "_Unknown is not an extension point"),
        ((Filtre,), {}, "Filtre is not an extension point (did you mean Filter?)"),
        ((GATE,), {}, "Mine takes part in Gate, but has no method admit"),
        ((GATE,), {"admits": lambda self, job: None}, "no method admit (did you mean admits?)"),
        ((GATE,), {"admit": lambda self: None}, "Mine.admit must take (job), as Gate calls it"),
        ((GATE,), {"admit": lambda self, job, node: None}, "Mine.admit must take (job)"),
        ((GATE,), {"admit": lambda self, pod: None}, "Mine.admit must take (job)"),
        ((GATE,), {"admit": lambda self, *, job: None}, "Mine.admit must take (job)"),
        ((GATE,), {"admit": True}, "Mine.admit is not a method"),
        ((GATE,), {"admit": _later}, "Mine.admit is async, and nothing awaits it"),
        (
            (GATE,),
            {"admit": lambda self, job: None, "job_key": lambda self, job: ()},
            "Mine.job_key belongs to JobOrder, which is not declared",
        ),
        (
            (GATE,),
            {"admit": lambda self, job: None, "job_keys": lambda self, job: ()},
            "Mine.job_keys is nearly job_key, the method of JobOrder, which is not declared",
        ),
        (
            (GATE,),
            {"admit": lambda self, job: None, "whyNot": lambda self, shape: ()},
            "Mine.whyNot is nearly why_not, the method of Filter, which is not declared",
        ),
        (
            (SCORER,),
            {
                "effect": lambda self, ask: None,
                "stale": lambda self, ask, row: None,
                "score": lambda self, span, ask, fits: None,
            },
            "Mine.score must take (ask, span, fits), as Scorer calls it",
        ),
        ((VICTIMS,), {"protect": lambda self, preemptor, victims: None}, "has no attribute answers"),
        (
            (VICTIMS,),
            {"spare": lambda self, preemptor, victims: None},
            "but has no method protect (spare is called so since version 2 of the plugin seam)",
        ),
        (
            (VICTIMS,),
            {"protect": lambda self, preemptor, victims: None, "answers": frozenset(), "counts": "no"},
            "Mine: counts must be true or false, not 'no'",
        ),
        (
            (VICTIMS,),
            {"protect": lambda self, preemptor, victims: None, "answers": {"preempt"}, "counts": False},
            "Mine: answers must be a frozenset of purposes, not {'preempt'}",
        ),
        (
            (SPACE,),
            {"limit": lambda self, gang: None, "gradients": lambda self, gang, within: ()},
            "Mine.gradients must take (gang, within, evicting=…)",
        ),
        (
            (FILTER,),
            {"ties": lambda self, shape: ()},
            "Mine takes part in Filter, but has no method why_not or why_not_now or shared_places",
        ),
        (
            (FILTER,),
            {"why_not_now": lambda self, shape, span: ()},
            "Mine takes part in Filter, but has no method concerns",
        ),
        (
            (FILTER,),
            {"why_not": lambda self, shape: (), "room": lambda self, shape: None},
            "Mine takes part in Filter, but has no method why_not_now",
        ),
        ((QUOTA,), {"overuse": lambda self, queue: None}, "overused or may_reclaim (did you mean overuse?)"),
        (
            (SCORER,),
            _scores(score_row=lambda self, ask, rows: None),
            "Mine.score_row is nearly score_rows, a method of Scorer: spell it so, or begin the name with _",
        ),
        ((SCORER,), _scores(score_rows=lambda self, rows: None), "Mine.score_rows must take (ask, rows)"),
        ((GATE,), {"admit": lambda self, job: None, "__init__": lambda self: None}, "Mine must take (arguments, view)"),
    ],
)
def test_a_declaration_that_does_not_hold_is_refused(
    points: tuple[type, ...], methods: Mapping[str, object], text: str
) -> None:
    """The error names plugin and method."""
    said = _refused(_class(points, methods))

    assert said.startswith("plugin mine: ")
    assert text in said


@pytest.mark.parametrize("method", sorted(METHODS))
def test_every_method_is_held_to_its_name_and_its_parameters(method: str) -> None:
    """Whatever the point: a letter too many, and a parameter too few, too many or of another name."""
    point = METHODS[method]
    sound = {name: getattr(point, name) for name in METHODS if METHODS[name] is point}
    whole = {**sound, "answers": frozenset(), "counts": False}
    check_plugin("mine", _class((point,), whole))
    wrong: list[Mapping[str, object]] = [
        {**{name: act for name, act in whole.items() if name != method}, f"{method}s": sound[method]},
        {**whole, method: lambda: None},
        {**whole, method: lambda self, one, two, three, four, five: None},
    ]
    if method not in ("global_queue", "debts", "entitled", "complaints", "protects_up_to"):
        wrong.append({**whole, method: lambda self, other=None, another=None, third=None, *, evicting=False: None})
    for methods in wrong:
        said = _refused(_class((point,), methods))
        assert said.startswith(("plugin mine: Mine takes part", f"plugin mine: Mine.{method}"))
        assert method in said


def test_methods_may_be_static_and_take_more() -> None:
    """What can be called as the point calls it is right, and so is the name of a parameter that is not used."""
    methods = {"admit": staticmethod(lambda job, *more: None), "job_key": lambda *all_of_it: ()}
    check_plugin("mine", _class((GATE, ORDER), methods))
    check_plugin("mine", _class((GATE, ORDER), {**methods, "admit": lambda self, _job, more=None: None}))
    check_plugin("mine", _class((GATE, ORDER), {**methods, "admit": lambda self, _: None}))


def test_helpers_may_have_any_other_name() -> None:
    """Only what is nearly the method of a point is taken for it; a helper beside the method itself is not."""
    helpers = {"share": lambda self: None, "admits": lambda self, job: None, "_job_keys": lambda self: None}

    check_plugin("mine", _class((GATE,), {"admit": lambda self, job: None, **helpers}))


def test_a_class_declares_for_itself() -> None:
    """What a base class declares says nothing of those that are made from it."""
    base = _class((GATE,), {"admit": lambda self, job: None})

    assert "Other declares no extension point" in _refused(type("Other", (base,), {}))


def test_a_function_is_held_to_the_classes_that_it_chooses_between() -> None:
    """Their declarations are checked when the profile is read, not when the first of them is made."""

    def choose(arguments: Arguments, view: CycleView) -> object:
        return Idle()

    sound, wrong = _class((GATE,), {"admit": lambda self, job: None}), _class((ORDER,), {})

    assert (GATE,) == check_plugin("mine", chooses(sound)(choose)).points
    assert "Mine takes part in JobOrder, but has no method job_key" in _refused(chooses(sound, wrong)(choose))
    assert "choose declares no extension point: chooses above the function does" in _refused(chooses()(choose))
    assert "must take (arguments, view)" in _refused(chooses(sound)(lambda view: Idle()))
    assert "7 declares no extension point" in _refused(7) or "int declares no extension point" in _refused(7)


class Given(msgspec.Struct, rename={"most_pods": "mostPods"}):
    """Arguments of a plugin."""

    weight: float = 1.0
    most_pods: int = 3
    zones: dict[str, int] = {}


@pytest.mark.parametrize(
    ("arguments", "wrong"),
    [
        ({}, None),
        ({"weight": 2, "mostPods": 1, "zones": {"a": 1}}, None),
        ({"wieght": 2}, ("wieght", "unknown argument (did you mean weight?)")),
        ({"most_pods": 2}, ("most_pods", "unknown argument (did you mean mostPods?)")),
        ({"weight": "much"}, ("weight", "expected float, got str")),
        ({"zones": {"a": "b"}}, ("zones[...]", "expected int, got str")),
    ],
)
def test_arguments_are_those_of_the_struct(arguments: Mapping[str, object], wrong: tuple[str, str] | None) -> None:
    """Names, types and defaults of arguments are those of its fields."""
    declaration = check_plugin("mine", takes_part(GATE, arguments=Given)(_class((GATE,), {"admit": lambda s, job: 0})))

    assert ("weight", "mostPods", "zones") == declaration.argument_names
    assert wrong == declaration.wrong_argument(arguments)


def test_arguments_must_be_a_struct() -> None:
    """A list of names would say nothing of their types."""
    plugin = _class((GATE,), {"admit": lambda self, job: None})
    declare: Callable[..., Callable[[type], type]] = takes_part

    assert "arguments of Mine must be a msgspec.Struct" in _refused(declare(GATE, arguments=["weight"])(plugin))


def test_a_plugin_without_arguments_takes_none() -> None:
    """Whatever a profile gives it is a mistake."""
    declaration = check_plugin("mine", _class((GATE,), {"admit": lambda self, job: None}))

    assert ("weight", "unknown argument") == declaration.wrong_argument({"weight": 1})


@pytest.mark.parametrize("name", sorted(PLUGINS.built_in))
def test_plugins_of_tierwise_are_what_they_declare(name: str) -> None:
    """The whole table passes the checks that other people's plugins have to pass."""
    declaration = PLUGINS.declaration(name)

    assert declaration.points
    assert name in ARGUMENTS


def test_every_method_has_a_switch() -> None:
    """A profile can take any plugin off any question."""
    assert [] == [method for method, mark in MARKS.items() if not mark.switches]


def test_there_are_few_points() -> None:
    """Whoever adds one finds out whether a method of another would do, and says why it exists."""
    assert len(POINTS) <= 24
    assert [] == [name for name, point in POINTS.items() if "Why it exists: " not in (point.__doc__ or "")]


def test_a_hint_counts_with_the_answer_that_it_describes() -> None:
    """A class that inherits a hint and answers otherwise has promised nothing; optional answers are inherited."""
    base = _class((SCORER,), _scores(score_rows=lambda self, ask, rows: None))
    other = takes_part(SCORER)(type("Other", (base,), {"score": lambda self, ask, span, fits: None}))
    again = takes_part(SCORER)(type("Again", (base,), _scores(score_rows=lambda self, ask, rows: None)))
    added = takes_part(SCORER)(type("Added", (base,), {"score_leaves": lambda self, ask: None}))
    same = takes_part(SCORER)(type("Same", (base,), {}))
    said = {kind.__name__: check_plugin("mine", kind).methods - set(_scores()) for kind in (other, again, added, same)}

    expected = {"Other": set(), "Again": {"score_rows"}, "Added": {"score_rows"}, "Same": {"score_rows"}}
    assert expected == said


@pytest.mark.parametrize("name", sorted(PLUGINS.built_in))
def test_every_hint_of_ours_counts(name: str) -> None:
    """What a plugin of tierwise has, it takes part by."""
    declaration = PLUGINS.declaration(name)
    classes = declaration.makes or (PLUGINS[name],)

    assert declaration.methods == {method for kind in classes for method in METHODS if hasattr(kind, method)}


@pytest.mark.parametrize("old", sorted(MOVED))
def test_points_of_the_old_seam_are_told_by_name(old: str) -> None:
    """An import, and a declaration of somebody's copy, say which point it is part of now."""
    told = f"{old} is part of {MOVED[old]} since version {SEAM} of the plugin seam: declare {MOVED[old]}"

    with pytest.raises(ImportError, match=told):
        exec(f"from tierwise.framework.extension import {old}")
    assert f"plugin mine: {told}" == _refused(takes_part(type(old, (), {}))(type("Mine", (), {"__init__": _made})))
    assert MOVED[old] in POINTS
    assert old not in POINTS


def test_a_point_that_is_gone_is_told_by_name() -> None:
    """A look into the table of points says what a point of that name is part of, or which one is meant."""
    with pytest.raises(KeyError, match="Gathering is part of SearchSpace since version 2"):
        POINTS["Gathering"]
    with pytest.raises(KeyError, match="Filtre is not an extension point"):
        POINTS["Filtre"]
