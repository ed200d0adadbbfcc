"""The page of `explain`: what one pod asks for, where its gang was looked for, what every node said, and the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tierwise.actions.diagnosis.inspection import NodeInspection, PodInspection
from tierwise.api.natural import natural
from tierwise.api.quantity import show
from tierwise.dialects.kubernetes.requests import FIRM_PREFIX
from tierwise.explain.message import tried_line
from tierwise.explain.naming import domain_title, gather_text, ladder_text, limit_text, sub_id, tier_label
from tierwise.explain.page import Page, Text, count, heading, section, wrapped
from tierwise.explain.ranges import compact
from tierwise.explain.tables import Cell, TableColumn, folded, meter, pairs, table
from tierwise.explain.terms import because
from tierwise.explain.text.evictions import eviction_lines
from tierwise.explain.text.narrative import rejection_lines
from tierwise.explain.text.waiting import STYLES
from tierwise.framework.report import CycleReport
from tierwise.model.job import Job, Shape, Task
from tierwise.model.snapshot import Ground, Snapshot
from tierwise.model.topology import ROOT, ROOT_NAME

__all__ = ["job_facts", "pod_lines"]


# What the answers of plugins are made of, node by node: costs, limits kept and violated, what links have left.


_MOST = 12
_SUFFIXES = ("", "k", "M", "G", "T")


def figure_lines(page: Page, nodes: Sequence[NodeInspection]) -> list[Text]:
    """A section for each plugin that gave figures; nodes with the same figures stand on one line."""
    plugins = dict.fromkeys(plugin for node in nodes for plugin in node.figures)
    return [line for plugin in plugins for line in _section(page, plugin, nodes)]


def _section(page: Page, plugin: str, nodes: Sequence[NodeInspection]) -> list[Text]:
    groups: dict[tuple[str, ...], list[str]] = {}
    fields: tuple[str, ...] = ()
    for node in nodes:
        figures = node.figures.get(plugin)
        if figures:
            fields = tuple(figures)
            groups.setdefault(tuple(_shown(figures[field]) for field in fields), []).append(node.name)
    ranked = list(groups.items()) if page.everything else list(groups.items())[:_MOST]
    rows: list[list[Cell]] = [[compact(names, limit=2), *figures] for figures, names in ranked]
    columns: list[TableColumn | str] = ["node:10"]
    for number, field in enumerate(fields):
        columns.append(
            TableColumn(field, right=True) if _plain(rows, number) else TableColumn(field, least=20, wraps=True)
        )
    lines = [*heading(plugin), *table(page, columns, rows)]
    hidden = sum(len(names) for names in groups.values()) - sum(len(names) for _, names in ranked)
    return [*lines, *folded(hidden, "more node")]


def _plain(rows: Sequence[Sequence[Cell]], field: int) -> bool:
    """Whether a column holds nothing but numbers."""
    return all(str(row[field + 1]).lstrip("-").isdigit() for row in rows)


def _shown(value: object) -> str:
    if isinstance(value, list):
        return "; ".join(
            _link(entry) if isinstance(entry, Mapping) and "link" in entry else str(entry) for entry in value
        )
    return str(value)


def _link(entry: Mapping[str, object]) -> str:
    if not {"link", "left", "capacity", "needs"} <= entry.keys():  # of a plugin that speaks of something else
        return ", ".join(f"{name} {value}" for name, value in entry.items())
    bandwidth_left, capacity, needs = (_short(entry[field]) for field in ("left", "capacity", "needs"))
    return f"{entry['link']}: {bandwidth_left} of {capacity} left, {needs} needed"


def _short(number: object) -> str:
    """An amount with the largest decimal suffix that loses nothing: 500M."""
    assert isinstance(number, int)
    power = 0
    while number and number % 1000 == 0 and power < len(_SUFFIXES) - 1:
        number, power = number // 1000, power + 1
    return f"{number}{_SUFFIXES[power]}"


_NODES = 10
_REASONS = 8
_SCORES = 8


def pod_lines(page: Page, inspection: PodInspection, snapshot: Snapshot, report: CycleReport, cycle: int) -> list[Text]:
    """The story of one pod in one cycle."""
    task, job = inspection.task, inspection.job
    part = _part(job, task)
    which = f", {part}" if part else ""
    lines = [Text.assemble((f"Pod {task.key}", "bold"), f"{which}, as cycle {cycle} saw it")]
    lines += pairs(page, [*job_facts(snapshot, job), *_own_facts(inspection, snapshot)])
    lines += [*heading("Search"), *_gradients(page, inspection, snapshot)]
    for tried in inspection.fabrics:
        lines += wrapped(Text(f"by itself, {tried_line(tried)}"), page.width, first="  ", rest="    ")
    lines += [
        *heading(_node_title(inspection.nodes)),
        *_feasible(page, inspection, snapshot),
        *_infeasible(page, inspection.nodes),
    ]
    lines += figure_lines(page, inspection.nodes)
    lines += section("Eviction", eviction_lines(page, report.eviction_attempts.get(job.key, ())))
    return [*lines, *heading("Verdict"), *_verdict(page, inspection, snapshot, report)]


def _set_facts(job: Job) -> list[tuple[str, Cell]]:
    """The set that the job names, if any."""
    member = job.member
    if member is None or not member.set or member.partners:
        return []
    together = f", whose first {member.starts} gangs start together" if member.starts else ""
    return [("set", member.set.partition("/")[2] + together)]


def _part(job: Job, task: Task) -> str:
    """Which part of its gang a pod is, in the words of whoever wrote it; "" where it says nothing."""
    named, task_name = job.part_of(task), task.role
    if named:
        return named
    return f"task {task_name}" if task_name else ""


def job_facts(snapshot: Snapshot, job: Job) -> list[tuple[str, Cell]]:
    """Who the job is, and its limits."""
    if not job.declared:
        return [("podGroup", "none: a gang of one"), ("queue", job.queue)]
    minimum = f"minMember {job.minimum} of {count(len(job.tasks), 'pod')}"
    facts: list[tuple[str, Cell]] = [
        ("podGroup", f"{job.key}, {minimum}, phase {job.phase.value}"),
        ("queue", f"{job.queue}, priority {job.priority}"),
    ]
    if job.gather is not None:
        facts.append(("gathered", gather_text(job.gather)))
    else:
        facts.append(("networkTopology", limit_text(snapshot.topology, job.constraint)))
    if job.ladder:
        facts.append(("ladder", ladder_text(job)))
    facts += (("and", limit_text(snapshot.topology, constraint)) for constraint in job.further)
    facts += _set_facts(job)
    facts += _inner_groups(snapshot, job)
    for policy in job.policies:
        number = sum(sub.policy >= 0 and job.policies[sub.policy] is policy for sub in job.subs)
        minimum_text = f", minSubGroups {policy.minimum}" if policy.minimum else ""
        word = job.part_names.of(policy.name, policy.name)
        text = f"{policy.name}: {count(number, word)} of {count(policy.size, 'pod')}{minimum_text}"
        own_constraints = [policy.constraint] if policy.constraint is not None or not policy.further else []
        limits = "; ".join(
            limit_text(snapshot.topology, constraint) for constraint in (*own_constraints, *policy.further)
        )
        facts.append(("subGroupPolicy", f"{text}; {limits}"))
    return facts


def _inner_groups(snapshot: Snapshot, job: Job) -> list[tuple[str, Cell]]:
    """The groups of groups of a nested job, alike ones together: how many of their parts must be whole, and limits."""
    parts = Counter(group.parent for group in job.inner_groups) + Counter(sub.inner_group for sub in job.subs)
    alike: dict[str, list[str]] = {}
    for number, group in enumerate(job.inner_groups):
        limit = f"; {limit_text(snapshot.topology, group.constraint)}" if number else ""
        text = f"{group.minimum} of {count(parts[number], 'part')} must be whole{limit}"
        alike.setdefault(text, []).append(group.path or "the gang")
    return [("nested groups", f"{compact(paths)}: {text}") for text, paths in alike.items()]


def _own_facts(inspection: PodInspection, snapshot: Snapshot) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = []
    if sub_id(inspection.sub):
        facts.append(
            (
                inspection.job.part_word(inspection.sub),
                f"{sub_id(inspection.sub)}, minimum {inspection.sub.minimum} of {inspection.sub.total}",
            )
        )
    shape, names = inspection.task.shape, snapshot.axis.names
    shown = [r for r in shape.asked.tolist() if names[r] != "pods" and not names[r].startswith(FIRM_PREFIX)]
    called = dict(zip(shape.asked.tolist(), shape.names(snapshot.axis), strict=True))
    request_texts = [f"{called[r]} {_amount(snapshot, shape, r)}" for r in shown]
    facts.append(("asks for", ", ".join(request_texts) or "nothing but a pod slot"))
    return facts


def _amount(snapshot: Snapshot, shape: Shape, resource: int) -> str:
    """How much a shape asks for; what is more than any node has is not counted exactly."""
    if int(shape.request[resource]) > int(snapshot.nodes.allocatable[resource].max(initial=0)):
        return "(more than any node has)"
    return show(snapshot.axis.names[resource], int(shape.request[resource]))


def _gradients(page: Page, inspection: PodInspection, snapshot: Snapshot) -> list[Text]:
    """Gradient by gradient the candidates, then the scores of the first gradient with a solution."""
    whose = f"its {inspection.job.part_word(inspection.sub)}" if inspection.in_sub_group else "its job"
    if inspection.ruled_out is not None:
        return wrapped(Text(f"nothing is looked for: {inspection.ruled_out.text}"), page.width, first="  ")
    if not inspection.gradients:
        where_text = (
            "" if inspection.within in ("", ROOT_NAME) else f" in {inspection.within}, where its job's pods run,"
        )
        text = (
            f"no candidates: no hyperNode within the limit{where_text} has enough left, even in sum, for the minimum of"
        )
        text += f" {whose}"
        return wrapped(Text(text), page.width, first="  ")
    topology = snapshot.topology
    rows: list[list[Cell]] = []
    for number, group in enumerate(inspection.gradients, start=1):
        tier = "" if ROOT_NAME in group else tier_label(topology, int(topology.tier[topology.index[group[0]]]))
        names = [name for name in group if name != ROOT_NAME]
        rows.append([str(number), tier, str(len(group)), compact(names) if names else "the whole cluster"])
    columns = ("gradient", "tier", "candidates>", "~20")
    lines = table(page, columns, rows)
    if snapshot.ground(inspection.job) is not Ground.ROWS:
        return [*lines, *_counted(page, inspection)]
    if inspection.candidates.scores:
        lines += [Text(""), *_scores(page, inspection)]
    elif inspection.job.constraint is not None or inspection.sub.constraint is not None:
        lines += wrapped(Text(f"none of them holds the minimum of {whose}"), page.width, first="  ")
    return lines


def _counted(page: Page, inspection: PodInspection) -> list[Text]:
    """The choice for a gang whose places are counted on its trees: none of them has a score."""
    names = ", ".join("the whole cluster" if name == ROOT_NAME else name for name in inspection.candidates.scores)
    text = f"places are counted on its tree, not scored; chosen: {names}" if names else "none of them holds all of it"
    return wrapped(Text(text), page.width, first="  ")


def _scores(page: Page, inspection: PodInspection) -> list[Text]:
    """The domains that hold the minimum in the order of the search, alike neighbours together, and why the first of
    them comes first.
    """
    candidates = inspection.candidates
    terms = list(dict.fromkeys(term for values in candidates.terms.values() for term in values))
    groups: list[tuple[tuple[str, ...], list[str]]] = []
    for name, score in candidates.scores.items():
        values = candidates.terms.get(name, {})
        key = (f"{score:.4g}", *("-" if (value := values.get(term)) is None else f"{value:.4g}" for term in terms))
        if not groups or groups[-1][0] != key:
            groups.append((key, []))
        groups[-1][1].append("the whole cluster" if name == ROOT_NAME else name)
    best = max(*candidates.scores.values(), 1e-9)
    width = 12 if page.width < 100 else 24
    shown = groups if page.everything else groups[:_SCORES]
    rows: list[list[Cell]] = [
        [key[0], meter(page.glyphs, width, float(key[0]) / best), *key[1:], compact(names)] for key, names in shown
    ]
    number = len(candidates.scores)
    title = "holds the minimum" if number == 1 else f"{number} hold the minimum"
    columns: list[TableColumn | str] = ["score>", "", *(f"{term}>" for term in terms)]
    columns.append(TableColumn(title, least=20, wraps=True))
    lines = table(page, columns, rows)
    hidden = sum(len(names) for _, names in groups[len(shown) :])
    lines += [Text(f"  and {hidden} more", style="dim")] if hidden else []
    best_name = next(iter(candidates.scores))
    part = inspection.job.part_word(inspection.sub) if inspection.in_sub_group else "gang"
    why = because("the whole cluster" if best_name == ROOT_NAME else best_name, candidates.decided, part, always=True)
    return [*lines, *wrapped(Text(why), page.width, first="  ", rest="    ")] if why else lines


def _node_title(nodes: Sequence[NodeInspection]) -> str:
    able, able_now = sum(node.takes_it for node in nodes), sum(node.takes_it and node.now for node in nodes)
    later = f", {able_now} of them now" if able_now < able else ""
    return f"Nodes: {able} of {len(nodes)} take the pod{later}"


def _feasible(page: Page, inspection: PodInspection, snapshot: Snapshot) -> list[Text]:
    """The best nodes with the score of every plugin that has an opinion; alike neighbours on one line."""
    ranked = sorted((n for n in inspection.nodes if n.takes_it), key=lambda n: (-n.total, natural(n.name)))
    plugins = [name for name in (ranked[0].scores if ranked else ()) if any(n.scores[name] for n in ranked)]
    columns: list[TableColumn | str] = ["node:10", "hyperNode:10", "total>"]
    columns += [TableColumn(name, right=True, least=9) for name in plugins]
    topology, row = snapshot.topology, snapshot.nodes.row
    groups: dict[tuple[str, ...], list[str]] = {}
    for node in ranked:
        home = topology.name[int(topology.leaf[row[node.name]])]
        scores = [f"{score:.5g}" for score in (node.total, *(node.scores[name] for name in plugins))]
        alone = [node.name] if page.everything else []
        groups.setdefault(("" if home == ROOT_NAME else home, *scores, *alone), []).append(node.name)
    rows: list[list[Cell]] = [[compact(names, limit=2), *key[: len(columns) - 1]] for key, names in groups.items()]
    shown = rows if page.everything else rows[:_NODES]
    lines = table(page, columns, shown)
    hidden = sum(len(names) for names in list(groups.values())[len(shown) :])
    return [*lines, Text(f"  and {count(hidden, 'more node')} that take it", style="dim")] if hidden else lines


def _infeasible(page: Page, nodes: Sequence[NodeInspection]) -> list[Text]:
    """The other nodes by what keeps the pod off them."""
    groups: dict[str, list[str]] = {}
    for node in nodes:
        if not node.takes_it:
            groups.setdefault("; ".join(node.reasons) or "no room", []).append(node.name)
    ranked = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    rows = [[str(len(names)), reason, compact(names, limit=2)] for reason, names in ranked[:_REASONS]]
    columns = ("nodes>", "do not, because~26", "~20")
    lines = table(page, columns, rows)
    if len(ranked) > _REASONS:
        hidden = sum(len(names) for _, names in ranked[_REASONS:])
        lines.append(Text(f"  and {count(hidden, 'node')} for {len(ranked) - _REASONS} other reasons", style="dim"))
    return [Text(""), *lines] if lines and any(node.takes_it for node in nodes) else lines


def _on_further_trees(snapshot: Snapshot, inspection: PodInspection, row: int) -> Iterator[str]:
    """The innermost domains around a node on the further trees that its pod has constraints on."""
    job, sub = inspection.job, inspection.sub
    for kind in dict.fromkeys(c.kind for c in (*job.constraints(), *job.further, *sub.further)):
        alternate = snapshot.alternate_topologies.get(snapshot.tree_aliases.get(kind, kind))
        if alternate is not None:
            leaf = int(alternate.topology.leaf[alternate.positions[row]])
            yield f"{alternate.topology.name[leaf]} of {kind}" if leaf != ROOT else f"outside of {kind}"


def _verdict(page: Page, inspection: PodInspection, snapshot: Snapshot, report: CycleReport) -> list[Text]:
    for decision, row in ((d, row) for d in report.decisions for task, row in d.places() if task is inspection.task):
        home = domain_title(snapshot.topology, int(snapshot.topology.leaf[row]))
        how = "bound to" if decision.bound else "waits until resources are released; kept for it:"
        around = "".join(f"; {place}" for place in _on_further_trees(snapshot, inspection, row))
        where = f" node {snapshot.nodes.names[row]} in {home}{around}"
        return wrapped(Text.assemble((how, "green" if decision.bound else "yellow"), where), page.width, first="  ")
    rejection = report.rejections.get(inspection.job.key)
    if rejection is None:
        return [Text("  this cycle gave it no place")]
    return [
        Text.assemble(
            "  waits, ",
            (rejection.verdict.words, STYLES[rejection.verdict]),
            ": ",
            (rejection.reason.code, "yellow"),
        ),
        *rejection_lines(page, snapshot.topology, rejection),
    ]
