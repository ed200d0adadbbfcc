"""Who runs the cells of a sweep: this process, processes of this machine, a Dask or a Ray cluster.

An engine takes records and gives results back in any order; it keeps no more than a few cells for each worker, so that
a grid of any size is planned as it goes. A worker that is lost costs the cells that it had again, and nothing else. A
cell that loses its worker three times has failed; a Dask scheduler counts such losses itself, and has the last word.
"""

from __future__ import annotations

import logging
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any, Protocol

from tierwise.api.errors import InputError
from tierwise.api.extras import imported
from tierwise_lab.replay.spec import ReplaySpec
from tierwise_lab.replay.sweep.grid import Cell
from tierwise_lab.replay.sweep.results import CellResult, answer

__all__ = ["Workers", "answering", "engine", "run"]

_AHEAD = 2
"""Cells that wait for each worker."""
_LOSSES = 3
_LONG = 160
_WITHIN = 10
"""Seconds within which a cluster answers."""


class WorkerLostError(Exception):
    """The worker of a cell went away."""


class Workers(Protocol):
    """Those that replay cells."""

    width: int  # how many cells run at once

    def submit(self, spec: ReplaySpec) -> Any:
        """Hand a cell over; what names it until it has ended."""

    def ended(self, handles: list[Any]) -> list[Any]:
        """Wait until at least one has ended; those that have."""

    def result(self, handle: Any) -> CellResult:
        """Result of a finished cell. Raises WorkerLostError if its worker died."""

    def close(self) -> None:
        """Give up what still runs."""


def run(workers: Workers, cells: Iterable[Cell]) -> Iterator[tuple[Cell, CellResult]]:
    """Every cell with its result, as they end."""
    waiting = iter(cells)
    retries = deque[Cell]()
    lost = Counter[int]()
    handed: list[tuple[Any, Cell]] = []
    try:
        while True:
            if retries and not handed:  # alone, so that the next loss is its own and no neighbour's
                coming = [retries.popleft()]
            else:
                coming = list(islice(waiting, 0 if retries else _AHEAD * workers.width - len(handed)))
            handed += [(workers.submit(cell.spec), cell) for cell in coming]
            if not handed:
                return
            over = workers.ended([handle for handle, _ in handed])
            for handle, cell in [entry for entry in handed if entry[0] in over]:
                handed.remove((handle, cell))
                try:
                    yield cell, workers.result(handle)
                except WorkerLostError:
                    lost[cell.number] += 1
                    if lost[cell.number] < _LOSSES:
                        retries.append(cell)
                    else:
                        yield cell, CellResult(error=f"its worker was lost {_LOSSES} times")
    finally:
        workers.close()


class Serial:
    """This process."""

    width = 1

    def submit(self, spec: ReplaySpec) -> Any:
        return [spec]  # a list of its own: the same cell may be handed over twice

    def ended(self, handles: list[Any]) -> list[Any]:
        return handles[:1]

    def result(self, handle: Any) -> CellResult:
        return answer(handle[0])

    def close(self) -> None:
        pass


class Pool:
    """Processes of this machine; where one dies, all are started again."""

    def __init__(self, processes: int) -> None:
        self.width = processes
        self._pool = self._started()

    def _started(self) -> ProcessPoolExecutor:
        context = get_context("spawn")
        watched, self._alive = context.Pipe(duplex=False)
        return ProcessPoolExecutor(self.width, mp_context=context, initializer=_end_with, initargs=(watched,))

    def submit(self, spec: ReplaySpec) -> Any:
        try:
            return self._pool.submit(answer, spec)
        except BrokenProcessPool:
            self._pool = self._started()
            return self._pool.submit(answer, spec)

    def ended(self, handles: list[Any]) -> list[Any]:
        return list(wait(handles, return_when=FIRST_COMPLETED).done)

    def result(self, handle: Future[CellResult]) -> CellResult:
        try:
            return handle.result()
        except BrokenProcessPool:
            raise WorkerLostError from None

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._alive.close()  # whoever still replays a cell ends at once


def _end_with(parent: Connection) -> None:
    """Let this process end when the other end of the pipe is closed: by `close`, or because the parent was killed."""

    def watch() -> None:
        with suppress(EOFError, OSError):
            parent.recv()
        os._exit(0)

    Thread(target=watch, daemon=True).start()


class Dask:
    """A cluster that `distributed.Client` reaches; it hands cells of lost workers to others itself, and counts them."""

    def __init__(self, address: str) -> None:
        self._library = imported("distributed", "dask", "--engine")
        for name in ("distributed", "distributed.client"):  # what they say of lost connections is told by us
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self._address = address
        try:
            self._client = self._library.Client(address, timeout=_WITHIN)
        except (OSError, ValueError) as error:
            raise _unreachable(address, error) from None
        self.width = max(sum(self._client.nthreads().values()), 1)

    def submit(self, spec: ReplaySpec) -> Any:
        return self._client.submit(answer, spec, pure=False)

    def ended(self, handles: list[Any]) -> list[Any]:
        with answering(self._address):
            return list(self._library.wait(handles, return_when="FIRST_COMPLETED").done)

    def result(self, handle: Any) -> CellResult:
        with answering(self._address):
            try:
                cell_result: CellResult = handle.result()
            except self._library.KilledWorker as error:
                return CellResult(error=f"its worker was lost {error.allowed_failures + 1} times")
            return cell_result

    def close(self) -> None:
        self._client.close()


_LOST = ("WorkerCrashedError", "NodeDiedError", "ObjectLostError", "OutOfMemoryError")
"""What Ray says of a cell whose worker went away, alone or with its node."""


class Ray:
    """A cluster that `ray.init` reaches, `local` for one of this machine."""

    def __init__(self, address: str) -> None:
        self._library = imported("ray", "ray", "--engine")
        self._address = address
        exceptions = vars(self._library.exceptions)
        self._lost = tuple(exceptions[name] for name in _LOST if name in exceptions)
        try:
            self._library.init(address, log_to_driver=False, logging_level="ERROR")
        except (ConnectionError, ValueError, RuntimeError) as error:
            raise _unreachable(address, error) from None
        self.width = max(int(self._library.cluster_resources().get("CPU", 1)), 1)
        self._answer = self._library.remote(max_retries=0)(answer)

    def submit(self, spec: ReplaySpec) -> Any:
        return self._answer.remote(spec)

    def ended(self, handles: list[Any]) -> list[Any]:
        with answering(self._address):
            done, _ = self._library.wait(handles, num_returns=1)
            return list(done)

    def result(self, handle: Any) -> CellResult:
        with answering(self._address):
            try:
                cell_result: CellResult = self._library.get(handle)
            except self._lost:
                raise WorkerLostError from None
            return cell_result

    def close(self) -> None:
        self._library.shutdown()


_CLUSTERS: dict[str, Callable[[str], Workers]] = {
    "dask": lambda address: Dask(f"tcp://{address}"),
    "ray": lambda address: Ray(address if address == "local" else f"ray://{address}"),
}


def engine(name: str | None, processes: int) -> Workers:
    """The one that `dask://HOST:PORT` or `ray://HOST:PORT` names; without a name processes of this machine."""
    if name is None:
        return Serial() if processes == 1 else Pool(processes)
    kind, separator, address = name.partition("://")
    if not separator or not address or kind not in _CLUSTERS:
        raise InputError(f"{name} is not dask://HOST:PORT or ray://HOST:PORT (ray://local)", field="--engine")
    return _CLUSTERS[kind](address)


def _unreachable(address: str, error: Exception, what: str = "cannot be reached") -> InputError:
    message = " ".join(str(error).split()) or type(error).__name__
    return InputError(
        f"{address} {what}: {message if len(message) <= _LONG else message[:_LONG] + '…'}", field="--engine"
    )


@contextmanager
def answering(address: str) -> Iterator[None]:
    """A cell answers whatever happens in it (`results.answer`): anything else that is raised is the cluster's."""
    try:
        yield
    except (WorkerLostError, InputError):
        raise
    except Exception as error:  # noqa: BLE001 - of whatever kind its client has
        raise _unreachable(address, error, "gave up") from None
