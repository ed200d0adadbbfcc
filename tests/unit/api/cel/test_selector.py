"""Selectors of devices give the answers that an API server's CEL gives."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.support.depth import QUICK

from tierwise.api.cel import CelError, CompileError, EvaluationError, Work, selector
from tierwise.api.resource import Device

DRIVER = "gpu.example.com"


def _device(**fields: Any) -> Device:
    return msgspec.convert(fields, Device)


GPU = _device(
    name="gpu-0",
    attributes={
        "model": {"string": "NVIDIA-A100-SXM4-40GB"},
        "index": {"int": 3},
        "ecc": {"bool": True},
        "driverVersion": {"version": "535.104.5"},
        "nic.example.com/rail": {"int": 1},
        "ports": {"strings": ["a", "b"]},
        "uuid": {"string": "GPU-1"},
    },
    capacity={"memory": {"value": "40Gi"}, "cores": {"value": "108"}},
)


def _matches(expression: str, device: Device = GPU) -> bool:
    return selector(expression).matches(DRIVER, device)


TRUE = (
    "true",
    'device.driver == "gpu.example.com"',
    "!device.allowMultipleAllocations",
    'device.attributes["gpu.example.com"].ecc',
    'device.attributes["gpu.example.com"]["index"] == 3',
    'device.attributes["nic.example.com"].rail == 1',
    'device.attributes["gpu.example.com"].model.lowerAscii().matches("^.*a100.*$")',
    'device.attributes["gpu.example.com"].model.startsWith("NVIDIA") && true',
    '"gpu.example.com" in device.attributes',
    '!("other" in device.attributes)',
    '!has(device.attributes["other"].anything)',
    '"index" in device.attributes["gpu.example.com"]',
    'device.attributes["gpu.example.com"].?model.hasValue()',
    '!device.attributes["gpu.example.com"].?none.orValue(false)',
    'device.attributes["gpu.example.com"][?"none"].orValue(7) == 7',
    'device.capacity["gpu.example.com"].memory == quantity("40960Mi")',
    'device.capacity["gpu.example.com"].memory.compareTo(quantity("40G")) > 0',
    'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("20Gi").add(quantity("1k")))',
    'device.capacity["gpu.example.com"].cores.asInteger() / 10 == 10',
    'device.attributes["gpu.example.com"].driverVersion.compareTo(semver("535.104.5")) == 0',
    'semver("1.0.0").isGreaterThan(semver("1.0.0-rc.1"))',
    'semver("1.0.0-rc.2").isLessThan(semver("1.0.0-rc.11"))',
    'semver("v01.2", true).minor() == 2',
    '!isSemver("1.2") && isQuantity("3Gi") && !isQuantity("3Go")',
    'cel.bind(gpu, device.attributes["gpu.example.com"], gpu.index > 2 && gpu.ecc)',
    'device.attributes["gpu.example.com"].ports.exists(port, port == "b")',
    '["a", "b"].all(x, x in device.attributes["gpu.example.com"].ports)',
    "[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6]",
    "[1, 2, 3].exists_one(x, x > 2)",
    "[1.5, 2.5, 0.5].max() == 2.5 && [1.5, 0.5, 2.5].min() == 0.5",
    'device.attributes["gpu.example.com"].model != 1',  # values of different types differ
    "dyn(1) == 1.0 && 1u == dyn(1) && 2.5 > 2",
    "true || 1 / 0 == 0",
    "1 / 0 == 0 || true",
    "!(false && 1 / 0 == 0)",
    "!(1 / 0 == 0 && false)",
    "-7 / 2 == -3 && -7 % 2 == -1",
    "-9223372036854775808 < 0",
    '(1 < 2 ? "yes" : "no") == "yes"',
    '"a,b".split(",")[0] == "a" && "abc".substring(1) == "bc"',
    '{"a": 1}["a"] == 1 && {"a": 1}.a == 1 && size("abc") == 3',
    'r"\\d" == "\\\\d" && "\\u0041" == "A" && \'\'\'it\'s\'\'\'.size() == 4',
    "sets.contains([1, 2], [1]) && sets.intersects([1], [1, 2]) && !sets.equivalent([1], [2])",
    "optional.of(3).optMap(x, x + 1).value() == 4",
    "1 in [1, 2] // of all the numbers",
)


@pytest.mark.parametrize("expression", TRUE)
def test_what_is_true(expression: str) -> None:
    """Each of these holds of the device, and so would the API server's CEL say."""
    assert _matches(expression)
    assert not _matches(f"!({expression.partition(' //')[0]})")


@pytest.mark.parametrize(
    "expression",
    [
        'device.attributes["gpu.example.com"].none == 1',
        'device.attributes["none"].none.isGreaterThan(quantity("0"))',
        "9223372036854775807 + 1 > 0",
        "1 / 0 == 1",
        '"a" < dyn(1)',
        'dyn("a") + dyn(1) == "a1"',
        'device.attributes["gpu.example.com"].model.matches("(" + device.driver)',
        'device.attributes["gpu.example.com"].index',  # not a bool
        "true && dyn(1)",
        "[1, 2, 3][7] == 1",
        "[1, 2, 3][dyn(1.0 / 0.0)] == 1",
        "int(1.0 / 0.0) == 1",
        'device.attributes["gpu.example.com"][dyn(1.0 / 0.0)] == 1',
        'quantity("x") == quantity("1")',
        "device.attributes['gpu.example.com'].index.all(x, x > 0)",
    ],
)
def test_what_has_no_answer(expression: str) -> None:
    """A missing key or types that do not go together are errors, and not a no."""
    with pytest.raises(EvaluationError):
        _matches(expression)


@pytest.mark.parametrize(
    "expression",
    [
        *("?!", "", "1 +", "foo", "device.foo == 1", "nothing(1)", "'a'.nothing()", "has(1)", "(1", "[1", "a.b.c"),
        *("'\\q'", "1 2", "9223372036854775808 > 0", "while", "'x", "(" * 500, "-" * 5 + "x", "sets.nothing(1)"),
        *(
            "1 + " * 300 + "1 == 1",
            'device.capacity["gpu.example.com"].memory > quantity("1Gi")',
            "true && 1",
            '"a" < 1',
        ),
        *(
            '"a" != 1',
            'device.driver.matches("(")',
            "device.driver",
            'int("x") == 1',
            '[1, "a"] == []',
            "{null: 1}[null] == 1",
        ),
        *("x" * 10300, "optional.of(1)" + ".optMap(x, x)" * 40 + ".hasValue()", '"a".split("").join() == "a"'),
    ],
)
def test_what_cannot_be_compiled(expression: str) -> None:
    """Text that is no expression, and names that do not exist."""
    with pytest.raises(CompileError):
        selector(expression)


@pytest.mark.parametrize(
    ("expression", "names"),
    [
        ("true", set()),
        ('device.driver == "x"', set()),
        ('device.attributes["a"].b == 1 && device.capacity["c"]["d"].isInteger()', {("a", "b"), ("c", "d")}),
        ('has(device.attributes["a"].b)', {("a", "b")}),
        ('cel.bind(x, device.attributes["a"], x.b && x.c)', {("a", "b"), ("a", "c")}),
        ('"b" in device.attributes["a"]', {("a", "")}),
        ('cel.bind(x, device.attributes["a"], size(x) == 1)', {("a", "")}),
        ('"a" in device.attributes', {("", "")}),
        ("device.attributes[device.driver].b == 1", {("", "")}),
        ('device.attributes["a"].?b.orValue(true)', {("a", "b")}),
        ('device.attributes["a"][?"b"].orValue(true)', {("a", "b")}),
        ('device.attributes["a"].all(k, k.size() < 9)', {("a", "")}),
        ('cel.bind(x, device.attributes["a"], [1].all(x, x > 0) && x.b)', {("a", "b")}),
        (
            'cel.bind(x, device.attributes["a"].b, x && device.capacity["c"].d == quantity("1"))',
            {("a", "b"), ("c", "d")},
        ),
    ],
)
def test_what_an_expression_looks_at(expression: str, names: set[tuple[str, str]]) -> None:
    """Devices that agree in these get the same answer."""
    assert names == selector(expression).looks_at


DIGITS = "[1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"


def _levels(number: int, asked: str) -> str:
    """Lists of lists, ten of the level below in each, and a question about the last, `z`."""
    text = asked
    for level in range(number, 0, -1):
        held = DIGITS if level == 1 else f"[{', '.join([f'l{level - 1}'] * 10)}]"
        text = f"cel.bind({'z' if level == number else f'l{level}'}, {held}, {text})"
    return text


@pytest.mark.parametrize(
    "asked",
    [
        *("z == z", "!(z != z)", "[z] == [z]", "{'a': z} == {'a': z}", "z in [z]", "[z].indexOf(z) == 0"),
        *("[z].lastIndexOf(z) == 0", "sets.contains([z], [z])", "sets.equivalent([z], [z])", "[z].includes(z)"),
        *("[z, z].distinct().size() == 1", "z.flatten().flatten().flatten().flatten().flatten() == []"),
        *("optional.of(z) == optional.of(z)", "dyn(z) == dyn(z)", "z.all(x, z == z)"),
    ],
)
@pytest.mark.parametrize("levels", [12] if QUICK else [7, 12])
def test_what_holds_itself_many_times_is_charged_for_each(asked: str, levels: int) -> None:
    """A text of a few hundred characters that stands for billions of values is given up."""
    with pytest.raises(CelError):
        _matches(_levels(levels, asked))


TWO_TEXTS = (  # which are alike and not one
    f"cel.bind(p, '{'x' * 1000}', cel.bind(s, {' + '.join('p' * 9)}, cel.bind(t, {' + '.join('p' * 9)}, "
)
TWO_MAPS = (  # which differ in their last key
    "cel.bind(m, lists.range(6000).transformMap(i, v, i != 5999, v), "
    "cel.bind(n, lists.range(6000).transformMap(i, v, i != 5998, v), "
)
VERSION = f"semver('1.0.0-{'1.' * 480}1')"
AMOUNTS = "cel.bind(q, quantity('1e900'), cel.bind(r, quantity('1e-9'), "


@pytest.mark.parametrize(
    "expression",
    [
        "cel.bind(l, lists.range(900), l.all(x, l.exists_one(y, false)) || true)",
        "cel.bind(l, lists.range(900), l.filter(x, l.filter(y, false).size() > 0).size() >= 0)",
        "cel.bind(l, lists.range(900), l.all(x, (l + l).size() == 1800))",
        "cel.bind(l, lists.range(1100), l.all(x, l == l))",
        'cel.bind(a, "aaaaaaaaaaaaaaaa", cel.bind(b, a.replace("a", a), b.replace("a", b).replace("a", b) == ""))',
        f"lists.range(200000).all(x, {' && '.join(['true'] * 1000)})",
        f"lists.range(50000).all(x, [{'0, ' * 3000}x].size() > 0)",
        f"lists.range(20000).all(x, {{{', '.join(f'{key}: 0' for key in range(1000))}, -1: x}}.size() > 0)",
        f"lists.range(100000).all(x, {'(true ? ' * 50}x{' : x)' * 50} >= 0)",
        f"{TWO_MAPS}cel.bind(l, [{', '.join(['n'] * 48)}], lists.range(9000).all(x, !l.includes(m)))))",
        f"cel.bind(s, '{'x' * 1000}', cel.bind(t, {' + '.join('s' * 17)}, t != ''))",
        f"{TWO_TEXTS}cel.bind(l, [{', '.join('s' * 100)}], lists.range(9000).all(x, l == [{', '.join('t' * 100)}])))))",
        f"lists.range(3000).all(x, !{VERSION}.isLessThan({VERSION}))",
        f"cel.bind(v, {VERSION}, lists.range(3000).all(x, v == v))",
        f"cel.bind(s, '{'x' * 1000}', lists.range(500).all(x, s.findAll('').size() > 0))",
        f"cel.bind(s, '{'ab' * 500}', lists.range(1800).all(x, !s.matches('(a|b)*a[ab]{{900}}c')))",
        f"{AMOUNTS}lists.range(45000).all(x, q{'.add(r)' * 7}.isGreaterThan(r))))",
    ],
)
def test_work_is_charged_by_what_is_touched(expression: str) -> None:
    """What Kubernetes counts little for is counted all the same."""
    with pytest.raises(CelError):
        _matches(expression)


def _maps(number: int) -> str:
    text = "true"
    for level in range(number, 0, -1):
        text = f"cel.bind(m{level}, {{m{level - 1}: m{level - 1}}}, {text})"
    return f"cel.bind(m0, {{1: 1}}, {text})"


@pytest.mark.parametrize(
    "expression",
    [
        _maps(40),  # each has a type twice as large as the one before
        'lists.range(5000).all(x, "a".matches("(?i)[^b]{900}" + string(x)))',  # each is compiled
        '"a".matches("\\\\pL{1000}")',
        'cel.bind(s, lists.range(9).map(x, "1").join(), s == "")',
        f'quantity("{"1" * 2000}").isInteger() && semver("1.2.3-{"a." * 900}b").major() == 1',
    ],
)
def test_what_takes_long_to_prepare_is_refused(expression: str) -> None:
    """Types, patterns and numbers that grow beyond what anybody writes."""
    with pytest.raises(CelError):
        selector(expression).matches(DRIVER, GPU)


def test_what_is_asked_for_in_vain_is_not_written_out() -> None:
    """The message about a key that is none does not hold all that the key holds."""
    with pytest.raises(EvaluationError, match=r"no such key: list$"):
        selector(_levels(12, "{1: 1}[dyn(z)] == 1")).matches(DRIVER, GPU)


def test_groups_of_patterns_cost_nothing() -> None:
    """A pattern of thousands of groups is looked for as one without."""
    groups = selector(f"cel.bind(s, '{'a' * 1500}', s.findAll('{'()' * 3000}').size() == 1501)")

    assert groups.matches(DRIVER, GPU)


def test_choices_between_choices_earn_nothing() -> None:
    """A choice costs nothing itself, so that a choice as a branch takes nothing off the account."""
    budget = Work(100)
    selector(f"{'(true ? ' * 20}device{' : device)' * 20}.driver == ''").matches(DRIVER, GPU, budget)

    assert budget.left < 100


def test_what_is_absorbed_is_not_the_end_of_work() -> None:
    """An error beside `true ||` does not matter, but work that was too much does."""
    assert _matches("1 / 0 == 0 || true")
    with pytest.raises(CelError):
        _matches(f"{_levels(9, 'z == z')} || true")


def test_several_evaluations_share_a_budget() -> None:
    """What is left for the next is less by what one has cost."""
    budget = Work(100)
    for _ in range(25):
        assert selector('device.driver == "gpu.example.com"').matches(DRIVER, GPU, budget)

    assert budget.left == 0
    with pytest.raises(CelError):
        selector('device.driver == "gpu.example.com"').matches(DRIVER, GPU, budget)


def test_patterns_cost_no_more_than_their_text() -> None:
    """A pattern that other engines stumble over is matched at once."""
    assert not _matches(f'"{"a" * 60}!".matches("(a+)+b")')


def test_a_bound_value_is_evaluated_when_it_is_used() -> None:
    """A guard in the body of `cel.bind` protects what is bound."""
    guarded = (
        'cel.bind(x, device.attributes["gpu.example.com"].none, "none" in device.attributes["gpu.example.com"] && x)'
    )

    assert not _matches(guarded)
    assert _matches("cel.bind(x, 1, cel.bind(y, x, cel.bind(x, 2, y == 1)))")
