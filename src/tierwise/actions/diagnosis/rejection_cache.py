"""Refusals of gangs by what they ask for, so that equal jobs are refused without another search.

A gang of the same kind that needs as much or more than one that was refused is refused too (`framework.refusals`
keeps both pages, and says how long). A kind is known only where counting is exact and the answer depends on capacity
alone. Each job's message has its own figures. They are counted at the end of the pass, once for all jobs with equal
requests, so that a long backlog costs little; where a refused job preempts at once, its message is needed at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from weakref import ref

from msgspec.structs import replace

from tierwise.actions.diagnosis.bound_shapes import names_of, objections_of, rules_digest
from tierwise.actions.placement.demand import Demand, TaskGroup, asks_beyond, demand, needs, shapes_of
from tierwise.framework.cycle import Cycle
from tierwise.framework.ledger import size_of
from tierwise.framework.refusals import KindAsked, Page, SmallestRefused, What
from tierwise.framework.steps import OutOfStepsError
from tierwise.model.job import Job, Reason, Rejection, Shape
from tierwise.model.snapshot import Ground

__all__ = ["RejectionCache"]

Kind = tuple[object, ...]
"""Shape, and how sub-jobs are confined: size and tier limit, or nothing for a job that is one sub-job.

For tasks of several shapes or roles, all that is asked for is in place of the shape.
"""


class RejectionCache:
    """The smallest demand of each kind, and tier limit, that found no place."""

    def __init__(self, cycle: Cycle, *, told_at_once: bool) -> None:
        self._cycle = cycle
        self._told_at_once = told_at_once
        book = cycle.refusals
        me = ref(self)  # a page that held this would be a ring, and a cycle leaves nothing to the collector of garbage

        def tell() -> None:
            cache = me()
            if cache is not None:
                cache.tell()

        self._refused: SmallestRefused[Rejection] = SmallestRefused(book.page(What.MINIMUM, tell))
        self._kept_places: Page[Reason] = book.page(What.KEPT_PLACE)
        # Rejected in the words for another job, by what they ask for and how their languages call it.
        self._untold: dict[tuple[tuple[object, ...], tuple[Shape, ...]], list[tuple[Job, Rejection]]] = {}

    def lookup(self, job: Job, demand: Demand) -> Rejection | None:
        """A refusal that holds for this job too: of as much or less, with no more room to search.

        A wider limit leaves more room, and a gang that is not cut into sub-jobs is easier to place than one that is.
        """
        kind = self._kind(job, demand) if self._refused else None
        if kind is None:
            return None
        refusal = self._told_to(job, kind, demand.need, shapes_of(demand.task_groups))
        if refusal is not None and rules_digest(self._cycle, self._every_shape(demand)):
            self.add_unplaced(job, demand)
        return refusal

    def lookup_early(self, job: Job) -> Rejection | None:
        """The same without working out what a job asks for, where one look tells: a long backlog is full of such."""
        if not self._refused:
            return None
        last_kind = self._cycle.refusals.kind_asked(job)
        if last_kind is not None and self._cycle.backlog.all_left(job):
            return None if any(map(self._cycle.pipeline.moving, last_kind.shapes)) else self._refused_as(job, last_kind)
        size = None if job.satisfied else size_of(self._cycle.ledger, job)
        if size is None or not 0 < size.pods <= sum(len(pod_set.tasks) for pod_set in job.pod_sets()):
            return None
        if self._cycle.pipeline.moving(size.shape) or self._cycle.beside_gradients(job):
            return None
        if job.min_resources is not None and asks_beyond(job, size.pods * size.shape.request):
            return None
        parts = (size.part, self._cycle.pipeline.limit(job.subs[0])) if size.part else ()
        return self._told_to(job, (size.shape.number, parts), size.pods, (size.shape,))

    def tell(self) -> None:
        """Give every job that a remembered refusal rejected a message in its own figures, as things are now.

        It is worked out on the account of the first of them. Where that has no steps left, they keep the message of
        the refusal that is remembered.
        """
        rejections = self._cycle.report.rejections
        figures: dict[
            tuple[object, ...], Rejection
        ] = {}  # with one of those whom the same rules bind under other names
        for (kind_key, shapes), refused in self._untold.items():
            waiting = [job for job, rejection in refused if rejections.get(job.key) is rejection]
            if not waiting:
                continue
            mark = self._cycle.ledger.mark()
            try:
                with self._cycle.steps.searching(waiting[0]):
                    rules = rules_digest(self._cycle, shapes)
                    figures_key = (kind_key, rules, objections_of(self._cycle, shapes)) if rules else (kind_key, shapes)
                    if figures_key not in figures:
                        figures[figures_key] = self._diagnose(waiting[0])
            except OutOfStepsError:
                self._cycle.ledger.rewind(mark)
            else:
                rejections |= {job.key: replace(figures[figures_key], subject=job.key, children=()) for job in waiting}
        self._untold.clear()

    def _told_to(self, job: Job, kind: Kind, tasks: int, shapes: tuple[Shape, ...]) -> Rejection | None:
        """The refusal of a job where one is remembered that holds for it."""
        limit = self._limit(job)
        if self._speaks_for(kind, tasks, limit) is None:
            return None
        surplus = sum(map(self._cycle.backlog.left, job.pod_sets())) > tasks
        return self._refused_as(job, KindAsked(kind, tasks, limit, surplus, shapes))

    def _refused_as(self, job: Job, kind_asked: KindAsked) -> Rejection | None:
        """The same for a job of which the kind is known; told in its own figures later, or at once."""
        refusal = self._speaks_for(kind_asked.kind, kind_asked.pods, kind_asked.limit)
        if refusal is None:
            return None
        self._cycle.refusals.asked[job.key] = kind_asked
        if self._told_at_once:
            return replace(self._diagnose(job), children=())
        rejection = replace(refusal, subject=job.key, children=())
        key = kind_asked.kind, kind_asked.pods, kind_asked.limit, kind_asked.has_surplus, job.words
        self._untold.setdefault((key, kind_asked.shapes), []).append((job, rejection))
        return rejection

    def _diagnose(self, job: Job) -> Rejection:
        """What keeps the job waiting now."""
        from tierwise.actions.diagnosis.diagnose import diagnose  # slow to import, and not every cycle rejects

        return diagnose(self._cycle, job, demand(self._cycle, job), bounded=False)

    def _speaks_for(self, kind: Kind, tasks: int, limit: float) -> Rejection | None:
        """A refusal of as much or less, or of what is easier, within a limit as wide."""
        easier = (kind, (kind[0], ())) if kind[1] else (kind,)
        return self._refused.speaks_for(easier, tasks, limit)

    def add(self, job: Job, demand: Demand, rejection: Rejection) -> None:
        """Remember a refusal, unless one of less is remembered already."""
        kind = self._kind(job, demand)
        if kind is None or rejection.bounded or self._cycle.fit_counts.closed is not None:
            return
        self._refused.add(kind, demand.need, self._limit(job), rejection)

    # -- minimums that found no place in the last cycle

    def unplaced(self, job: Job, demand: Demand) -> bool:
        """Whether the last cycle proved that there is no place for a minimum, and nothing has changed that it read."""
        book = self._cycle.refusals
        if not book.was_unplaced(job) or not self._reads_room_and_rules_alone(demand):
            return False
        rules = rules_digest(self._cycle, self._every_shape(demand))
        return rules is not None and book.is_unplaced(job, self._all_asked(job, demand), rules)

    def add_unplaced(self, job: Job, demand: Demand) -> None:
        """Remember for the next cycle that a search has proven that there is no place for a minimum."""
        book = self._cycle.refusals
        if not book.keeps or not job.tasks or not self._reads_room_and_rules_alone(demand):
            return
        rules = rules_digest(self._cycle, self._every_shape(demand))
        if rules is not None:
            book.add_unplaced(job, self._all_asked(job, demand), rules)

    def _reads_room_and_rules_alone(self, demand: Demand) -> bool:
        """Whether a search for a demand depends on nothing but room, rules between pods, and what never changes."""
        if demand.narrowed or self._cycle.declined or self._cycle.fit_counts.closed is not None:
            return False
        return all(shape.volumes is None and shape.devices is None for shape in self._every_shape(demand))

    def _every_shape(self, demand: Demand) -> tuple[Shape, ...]:
        return shapes_of((*demand.task_groups, *demand.substitutes))

    def _all_asked(self, job: Job, demand: Demand) -> tuple[object, ...]:
        """All that a job asks for, of which tasks, and the limits of now: those of ladders move with the time.

        Roles are numbered within the job, as other jobs come and go.
        """
        limit, roles = self._cycle.pipeline.limit, {number: i for i, number in enumerate(sorted(job.roles))}
        groups = tuple(
            (
                group.sub.key,
                limit(group.sub),
                group.need,
                tuple((roles[number], minimum) for number, minimum in group.roles.items()),
                tuple((tasks_left.pod_set.shape.number, tasks_left.left) for tasks_left in group.remaining),
            )
            for group in (*demand.task_groups, *demand.substitutes)
        )
        return limit(job), demand.need, demand.inner_group, groups

    # -- places that are kept for gangs that have declined them

    def kept_place(self, job: Job, demand: Demand) -> Reason | None:
        """Why jobs of a kind had no place but one that is kept for another gang, if that holds for this job too.

        Jobs of a kind may run for different times, so each might have been kept from another place.
        """
        kept_places = self._kept_places.entries()
        if not kept_places or not self._cycle.declined.all_closed or self._cycle.fit_counts.closed is not None:
            return None
        return kept_places.get(self._kept_key(job, demand))

    def add_kept_place(self, job: Job, demand: Demand, reason: Reason) -> None:
        """Remember for jobs of a kind that a gang keeps the place that they could have."""
        key = self._kept_key(job, demand)
        if key[0] is not None and self._cycle.declined.all_closed and self._cycle.fit_counts.closed is None:
            self._kept_places.add(key, reason)

    def _kept_key(self, job: Job, demand: Demand) -> tuple[object, ...]:
        return self._kind(job, demand), demand.need, self._limit(job), job.constraint

    def _limit(self, job: Job) -> float:
        limit = self._cycle.pipeline.limit(job)
        return float("inf") if limit is None else limit

    def _kind(self, job: Job, demand: Demand) -> Kind | None:
        """What the answer depends on, apart from limit and number; None where it depends on more."""
        first_group = demand.task_groups[0]
        ground = self._cycle.snapshot.ground(job)
        if ground is Ground.GATHERED or job.shape.apart:
            return None
        names = names_of(self._cycle, self._every_shape(demand))
        if names is None:
            return None
        if job.min_resources is not None and asks_beyond(job, needs(demand)):
            return None
        if self._cycle.current_domain(job) is not None:
            return None
        if ground is Ground.TREES:
            return _on_several_trees(job, demand, names), ()
        shape, role = first_group.remaining[0].pod_set.shape, first_group.remaining[0].pod_set.role_number
        if len(first_group.remaining) != 1 or not first_group.roles.keys() <= {role}:
            return None if job.shape.parted else (_mixture(first_group, names), ())
        if not job.shape.parted:
            return (names[shape.number], ()) if first_group.remaining[0].left >= first_group.need else None
        if job.shape.one_part is None or demand.substitutes or demand.alternatives is not None:
            return None
        sizes = {
            (task_group.need, task_group.remaining[0].pod_set.shape.number, len(task_group.remaining))
            for task_group in demand.task_groups
        }
        limits = first_group.need, self._cycle.pipeline.limit(first_group.sub)
        return (names[shape.number], limits) if len(sizes) == 1 else None


def _on_several_trees(job: Job, demand: Demand, names: Mapping[int, object]) -> tuple[object, ...]:
    """All that a job on several trees asks for, and where: as for mixtures, who asks for the same is answered alike."""
    groups = tuple((_mixture(group, names), group.sub.policy, group.sub.inner_group) for group in demand.task_groups)
    choices = bool(demand.substitutes), demand.alternatives is not None
    return job.constraint, job.further, job.policies, job.inner_groups, groups, choices


def _mixture(task_group: TaskGroup, names: Mapping[int, object]) -> tuple[object, ...]:
    """All that a group of several shapes or roles asks for: who asks for the same is answered the same."""
    remaining = tuple(
        (names[r.pod_set.shape.number], r.left, task_group.roles.get(r.pod_set.role_number, 0))
        for r in task_group.remaining
    )
    return task_group.need, sum(task_group.roles.values()), remaining
