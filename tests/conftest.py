"""Set-up shared by all tests: the Hypothesis profiles, signals, and the order of the tests.

`default` and `thorough` are deterministic, so that the same commit gives the same answer everywhere; `make properties`
chooses the second, which has more examples. `deep` looks for new counter-examples: `make test-deep` chooses it.
"""

import gc
import os
import signal
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers

# Generating a whole cluster takes a while on a busy machine; that is no fault of the test.
UNHURRIED = [HealthCheck.too_slow]

# Hypothesis also draws constants that it finds in the modules loaded so far, and which those are depends on the tests
# that ran before in the same process: without them a run draws what every other run draws.
providers._get_local_constants = lambda: providers._local_constants

# Whoever looks for mutations wants to know that a property fails, not the smallest example: that can take minutes.
PHASES = [phase for phase in Phase if phase not in (Phase.shrink, Phase.explain) or "MUTANT" not in os.environ]

for name, number in (("default", 3), ("thorough", 16)):
    settings.register_profile(
        name, max_examples=number, deadline=None, derandomize=True, suppress_health_check=UNHURRIED, phases=PHASES
    )
settings.register_profile("deep", max_examples=2_000, deadline=None, suppress_health_check=UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# A shell that starts a command in the background lets it ignore interrupts, and programs inherit that: those that tests
# start would not end when they are asked to.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# What is quick and tells most comes first, so that a failure shows early; folders that are not named come before.
LATER = ("golden", "examples", "conformance", "contract", "bench", "properties", "fuzz")
FOLDER = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the tests by folder, and leave the order within a folder as it is."""

    def place(item: pytest.Item) -> int:
        folder = item.path.relative_to(FOLDER).parts[0] if item.path.is_relative_to(FOLDER) else ""
        return LATER.index(folder) if folder in LATER else -1

    items.sort(key=place)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what tests have drawn that draw something else each time, so that it can be drawn again."""
    for outcome in ("passed", "failed"):
        for report in terminalreporter.getreports(outcome):
            for name, value in report.user_properties:
                if name == "drawn":
                    terminalreporter.write_line(f"{report.nodeid}: {value}")


def pytest_collection_finish() -> None:
    """Keep what was collected out of the garbage collector's way: thousands of tests make each full pass long."""
    gc.collect()
    gc.freeze()
