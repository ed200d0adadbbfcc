"""Expressions into functions: compiled once, evaluated on any number of devices.

What looks something up, chooses and loops is here; functions and operators are in `functions`. Every operation is
charged as in Kubernetes, and besides for all that it touches; whatever costs more than is allowed is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

import msgspec

from tierwise.api.cel.check import Checked
from tierwise.api.cel.cost import LIMIT
from tierwise.api.cel.errors import CompileError, EvaluationError, TooMuchWorkError
from tierwise.api.cel.functions import FUNCTIONS
from tierwise.api.cel.operators import Function, Work, can_be_key, key_of, no_overload, unkeyed, value_at
from tierwise.api.cel.syntax import Call, Comprehension, ListOf, Literal, MapOf, Name, Node, Select
from tierwise.api.cel.texts import PatternText
from tierwise.api.cel.values import EveryKey, Key, Optional, Value

__all__ = ["Environment", "Evaluate", "compiled"]

_LIST, _MAP = 10, 30

_NODES_FOR_ONE: Final = 4
"""Nodes that an iteration of a loop evaluates for a unit of cost: Kubernetes counts nothing for literals, and, or."""


class _Later(msgspec.Struct, eq=False):
    """Expression bound to a name; it is evaluated when the name is first used."""

    evaluate: Evaluate
    found: Value = None
    failed: EvaluationError | None = None
    is_known: bool = False


class Environment(Work):
    """Variables by number, and the work that is left."""

    __slots__ = ("slots",)

    def __init__(self, size: int, device: Value, allowed: int) -> None:
        super().__init__(allowed)
        self.slots: list[Value | _Later] = [device, *[None] * (size - 1)]


Evaluate = Callable[[Environment], Value]


class _Plan(msgspec.Struct, frozen=True, eq=False):
    """How a node is evaluated; constants are known before."""

    evaluate: Evaluate
    constant: bool = False
    attribute: bool = False  # a variable or a part of one, which costs less where it is looked up
    choice: bool = False  # one of two attributes: it costs nothing itself


def compiled(root: Node, checked: Checked) -> tuple[Evaluate, int]:
    """A function for a tree, and how many variables it has."""
    planner = _Planner(checked)
    plan = planner.plan(root)
    return plan.evaluate, planner.size


def _constant(value: Value) -> _Plan:
    return _Plan(lambda _: value, constant=True)


class _Planner:
    def __init__(self, checked: Checked) -> None:
        self._checked = checked
        self._nowhere = Environment(1, None, LIMIT)  # constants are evaluated without a device
        self._scope: dict[str, int] = {"device": 0}
        self._nodes = 0
        self.size = 1

    def plan(self, node: Node) -> _Plan:
        self._nodes += 1
        match node:
            case Literal(value):
                return _constant(value)
            case Name(name):
                return _Plan(_named(self._scope[name]), attribute=True)
            case Select(of, field, test):
                return self._selected(of, field, test=test)
            case ListOf():
                return self._list(node)
            case MapOf():
                return self._map(node)
            case Comprehension():
                return _Plan(self._comprehension(node))
            case Call():
                return self._call(node)

    def _selected(self, of: Node, field: str, *, test: bool) -> _Plan:
        holder = self.plan(of)
        price = 0 if holder.attribute else 1
        if test:
            return _Plan(_has(holder.evaluate, field, price))
        return _Plan(_looked_up(holder.evaluate, lambda _: field, price + 1, optional=False), attribute=True)

    def _indexed(self, call: Call) -> _Plan:
        holder, key = (self.plan(argument) for argument in call.arguments)
        price = (0 if holder.attribute else 1) + (0 if key.attribute else 1)
        if key.constant and not isinstance(key.evaluate(self._nowhere), str | int | float):
            raise CompileError("a key that nothing can be looked up by")
        optional = call.function != "_[_]"
        return _Plan(_looked_up(holder.evaluate, key.evaluate, price, optional=optional), attribute=True)

    def _list(self, node: ListOf) -> _Plan:
        parts = [self.plan(item) for item in node.items]
        items = [(part.evaluate, i in node.optional) for i, part in enumerate(parts)]

        def gather(env: Environment) -> Value:
            env.work(_LIST)
            found: list[Value] = []
            for item, optional in items:
                value = item(env)
                if not optional:
                    found.append(value)
                elif not isinstance(value, Optional):
                    raise no_overload("an optional item", value)
                elif value.there:
                    found.append(value.value)
            return found

        if all(part.constant for part in parts) and not node.optional:
            return _constant(gather(self._nowhere))
        return _Plan(gather)

    def _map(self, node: MapOf) -> _Plan:
        plans = [(self.plan(key), self.plan(value), optional) for key, value, optional in node.entries]
        entries = [(key.evaluate, value.evaluate, optional) for key, value, optional in plans]

        def gather(env: Environment) -> Value:
            env.work(_MAP)
            items: dict[Key, Value] = {}
            for key, value, optional in entries:
                at = key_of(key(env))
                item = value(env)
                if not optional:
                    items[at] = item
                elif not isinstance(item, Optional):
                    raise no_overload("an optional entry", item)
                elif item.there:
                    items[at] = item.value
            return items

        if all(key.constant and value.constant and not optional for key, value, optional in plans):
            with suppress(EvaluationError):
                return _constant(gather(self._nowhere))
        return _Plan(gather)

    def _call(self, call: Call) -> _Plan:
        name = call.function
        match name:
            case "_[_]" | "_[?_]" | "_?._":
                return self._indexed(call)
            case "_&&_" | "_||_":
                return _Plan(
                    _connected([self.plan(argument).evaluate for argument in call.arguments], stop=name == "_||_")
                )
            case "_?_:_":
                condition, then, otherwise = (self.plan(argument) for argument in call.arguments)
                choice = _chosen(condition.evaluate, _discounted(then), _discounted(otherwise))
                return _Plan(choice, attribute=True, choice=True)
            case "or" | "orValue" if call.target is not None:
                return _Plan(_otherwise(self.plan(call.target).evaluate, self.plan(call.arguments[0]).evaluate, name))
            case _:
                pass
        parts = [
            self.plan(argument) for argument in ((call.target,) if call.target is not None else ()) + call.arguments
        ]
        overloads = self._checked.overloads[id(call)]
        overload = overloads[0] if len(overloads) == 1 else ""
        function = FUNCTIONS[name](overload)
        if name in ("matches", "find", "findAll"):
            parts[1] = self._pattern(call, parts[1])
        if name in _CONVERSIONS and parts[0].constant:
            try:
                return _constant(function(self._nowhere, parts[0].evaluate(self._nowhere)))
            except EvaluationError as error:
                raise CompileError(str(error)) from None
        if overload == "in_list" and parts[1].constant:
            return _member(parts[0].evaluate, parts[1].evaluate(self._nowhere), function)
        return _Plan(_applied(function, [part.evaluate for part in parts]))

    def _pattern(self, call: Call, plan: _Plan) -> _Plan:
        """Compile a literal pattern, and refuse an invalid one before anything is evaluated."""
        if call.function == "matches" and isinstance(call.arguments[0], Literal):
            pattern = call.arguments[0].value  # of the function as well as of the method
            PatternText(pattern if isinstance(pattern, str) else "")
        text = plan.evaluate(self._nowhere) if plan.constant else None
        if isinstance(text, str):
            return _constant(PatternText(text))
        return plan

    # -- macros

    def _comprehension(self, node: Comprehension) -> Evaluate:
        outer = dict(self._scope)
        over = self.plan(node.over).evaluate
        start = self.plan(node.start).evaluate
        accumulator = self._bound(node.accumulator)
        if node.kind == "bind":
            body = self.plan(node.result).evaluate
            self._scope = outer
            return _bound(accumulator, start, body)
        names = self._bound(node.name), self._bound(node.second) if node.second else 0
        entries = _two_by_two(over, names) if node.second else _one_by_one(over, names[0])
        step = node.step
        nodes = self._nodes
        assert isinstance(step, Call)
        where: Evaluate | None = None
        if node.kind in ("all", "exists"):
            body = self.plan(step.arguments[1]).evaluate
            self._scope = outer
            return _quantified(entries, body, self._least(nodes), stop=node.kind == "exists")
        if step.function == "_?_:_":
            where = self.plan(step.arguments[0]).evaluate
            inner = step.arguments[1]
            assert isinstance(inner, Call)
            step = inner
        if node.kind == "existsOne":
            assert where is not None
            self._scope = outer
            return _only(entries, where, self._least(nodes))
        added = step.arguments[-1]
        if isinstance(added, ListOf):
            body = self.plan(added.items[0]).evaluate
            self._scope = outer
            return _gathered(entries, where, body, self._least(nodes))
        body = self.plan(added).evaluate
        self._scope = outer
        return _transformed(entries, where, body, self._least(nodes))

    def _least(self, before: int) -> int:
        """Lowest cost of one iteration, from the number of nodes that were planned for its body."""
        return max((self._nodes - before) // _NODES_FOR_ONE, 1)

    def _bound(self, name: str) -> int:
        self._scope[name] = self.size
        self.size += 1
        return self.size - 1


_CONVERSIONS: Final = frozenset({"bool", "bytes", "double", "dyn", "int", "string", "uint"})


def _named(slot: int) -> Evaluate:
    def read(env: Environment) -> Value:
        env.work(1)
        value = env.slots[slot]
        if isinstance(value, _Later):
            return _now(env, value)
        return value

    return read


def _now(env: Environment, later: _Later) -> Value:
    if not later.is_known:
        later.is_known = True
        try:
            later.found = later.evaluate(env)
        except EvaluationError as error:
            later.failed = error
    if later.failed is not None:
        raise later.failed
    return later.found


def _discounted(plan: _Plan) -> Evaluate:
    """A branch of a choice: what is looked up there costs one less."""
    if not plan.attribute or plan.choice:
        return plan.evaluate

    def evaluate(env: Environment) -> Value:
        env.left += 1
        return plan.evaluate(env)

    return evaluate


def _looked_up(of: Evaluate, key: Evaluate, price: int, *, optional: bool) -> Evaluate:
    def look_up(env: Environment) -> Value:
        holder = of(env)
        at = key(env)
        env.work(price)
        if isinstance(holder, Optional):
            if not holder.there:
                return holder
            return _maybe(holder.value, at)
        if optional:
            return _maybe(holder, at)
        return _there(holder, at)

    return look_up


def _maybe(holder: Value, key: Value) -> Value:
    """An optional look-up: what is not there is no error."""
    present, value = value_at(holder, key)
    if present:
        return Optional(value, there=True)
    return Optional()


def _there(holder: Value, key: Value) -> Value:
    present, value = value_at(holder, key)
    if not present:
        what = "index out of bounds" if isinstance(holder, list) else "no such key"
        key_shown = str(key)[:64] if isinstance(key, str | int | float) else type(key).__name__  # a list can be endless
        raise EvaluationError(f"{what}: {key_shown}")
    return value


def _has(of: Evaluate, field: str, price: int) -> Evaluate:
    def has(env: Environment) -> Value:
        holder = of(env)
        env.work(price)
        if isinstance(holder, Optional):
            if not holder.there:
                return False
            holder = holder.value
        if not isinstance(holder, dict):
            raise no_overload("has", holder)
        return field in holder or isinstance(holder, EveryKey)

    return has


def _applied(function: Function, parts: list[Evaluate]) -> Evaluate:
    if len(parts) == 2:
        left, right = parts
        return lambda env: function(env, left(env), right(env))
    if len(parts) == 1:
        (only,) = parts
        return lambda env: function(env, only(env))
    return lambda env: function(env, *[part(env) for part in parts])


def _member(item: Evaluate, listed: Value, function: Function) -> _Plan:
    """Whether a value is in a literal list: looked up at once where all its items are plain."""
    assert isinstance(listed, list)
    if not listed:
        return _constant(value=False)
    if not all(value is None or isinstance(value, str | int | float) for value in listed):
        return _Plan(lambda env: function(env, item(env), listed))
    keys = set()
    for value in listed:
        if can_be_key(value):
            keys.add(key_of(value))
    keys |= {float(value) for value in keys if isinstance(value, int)}

    def ask(env: Environment) -> Value:
        value = item(env)
        return can_be_key(value) and key_of(value) in keys

    return _Plan(ask)


def _connected(sides: list[Evaluate], *, stop: bool) -> Evaluate:
    """And, or: an error on one side does not matter where another side decides."""

    def connect(env: Environment) -> Value:
        failed: EvaluationError | None = None
        for side in sides:
            try:
                value = side(env)
            except TooMuchWorkError:
                raise
            except EvaluationError as error:
                failed = failed or error
                continue
            if value is stop:
                return stop
            if not isinstance(value, bool):
                failed = failed or no_overload("and, or", value)
        if failed is not None:
            raise failed
        return not stop

    return connect


def _chosen(condition: Evaluate, then: Evaluate, otherwise: Evaluate) -> Evaluate:
    def choose(env: Environment) -> Value:
        if _truth(condition(env)):
            return then(env)
        return otherwise(env)

    return choose


def _otherwise(of: Evaluate, alternative: Evaluate, name: str) -> Evaluate:
    def choose(env: Environment) -> Value:
        holder = of(env)
        if not isinstance(holder, Optional):
            return holder
        if not holder.there:
            return alternative(env)
        return holder if name == "or" else holder.value

    return choose


def _truth(value: Value) -> bool:
    if not isinstance(value, bool):
        raise no_overload("a condition", value)
    return value


# -- macros


def _bound(slot: int, start: Evaluate, body: Evaluate) -> Evaluate:
    def evaluate(env: Environment) -> Value:
        env.slots[slot] = _Later(start)
        return body(env)

    return evaluate


Entries = Callable[[Environment], Iterator[Value]]
"""Sets the variables of a loop to one entry after the other, and gives its first."""


def _one_by_one(over: Evaluate, slot: int) -> Entries:
    def entries(env: Environment) -> Iterator[Value]:
        holder = over(env)
        if not isinstance(holder, list | dict):
            raise no_overload("a macro over", holder)
        items: Iterable[Value] = holder if isinstance(holder, list) else map(unkeyed, holder)
        for item in items:
            env.slots[slot] = item
            yield item

    return entries


def _two_by_two(over: Evaluate, slots: tuple[int, int]) -> Entries:
    def entries(env: Environment) -> Iterator[Value]:
        holder = over(env)
        pairs: Iterable[tuple[Value, Value]]
        if isinstance(holder, list):
            pairs = enumerate(holder)
        elif isinstance(holder, dict):
            pairs = ((unkeyed(key), value) for key, value in holder.items())
        else:
            raise no_overload("a macro over", holder)
        for key, second in pairs:
            env.slots[slots[0]], env.slots[slots[1]] = key, second
            yield key

    return entries


def _quantified(entries: Entries, body: Evaluate, minimum: int, *, stop: bool) -> Evaluate:
    """All, exists: an error of one entry does not matter where another decides."""
    looks, price = (3, 4) if stop else (2, 3)

    def evaluate(env: Environment) -> Value:
        failed: EvaluationError | None = None
        decided = False
        for _ in entries(env):
            if decided:
                env.work(looks)
                break
            before = env.left
            env.work(price)
            try:
                value = body(env)
            except TooMuchWorkError:
                raise
            except EvaluationError as error:
                failed = failed or error
            else:
                if value is stop:
                    decided = True
                elif not isinstance(value, bool):
                    failed = failed or no_overload("and, or", value)
            _pay_at_least(env, before, minimum)
        env.work(1)
        if decided:
            return stop
        if failed is not None:
            raise failed
        return not stop

    return evaluate


def _pay_at_least(env: Environment, before: int, minimum: int) -> None:
    """Let every iteration of a loop cost something, also one for which Kubernetes counts nothing."""
    missing = minimum - (before - env.left)
    if missing > 0:
        env.work(missing)


def _kept(env: Environment, entries: Entries, where: Evaluate | None, price: int, minimum: int) -> Iterator[Value]:
    """The entries of a loop that a condition keeps, each at a price."""
    for entry in entries(env):
        before = env.left
        if where is None or _truth(where(env)):
            env.work(price)
            yield entry
        _pay_at_least(env, before, minimum)


def _only(entries: Entries, where: Evaluate, minimum: int) -> Evaluate:
    def evaluate(env: Environment) -> Value:
        number = sum(1 for _ in _kept(env, entries, where, 2, minimum))
        env.work(2)
        return number == 1

    return evaluate


def _gathered(entries: Entries, where: Evaluate | None, body: Evaluate, minimum: int) -> Evaluate:
    def evaluate(env: Environment) -> Value:
        items = [body(env) for _ in _kept(env, entries, where, _LIST + 2, minimum)]
        env.work(1)
        return items

    return evaluate


def _transformed(entries: Entries, where: Evaluate | None, body: Evaluate, minimum: int) -> Evaluate:
    def evaluate(env: Environment) -> Value:
        items = {key_of(key): body(env) for key in _kept(env, entries, where, 3, minimum)}
        env.work(1)
        return items

    return evaluate
