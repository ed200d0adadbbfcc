"""Fixed samples of every comparison with other projects' own code, one after the other: what `make compare` runs.

A comparison whose code cannot be fetched or built here is skipped, with the reason; one that finds a difference which
nothing explains makes the exit status 1. The samples are small enough for a quarter of an hour, and always the same.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import go_programs

HERE = Path(__file__).resolve().parent
SAMPLES = {
    "Volcano's session": ("volcano", "--clusters", "80", "--seed", "1"),
    "kube-scheduler's filters and scores": ("kube_scheduler", "--clusters", "600", "--seed", "1"),
    "kube-scheduler's storage": ("kube_scheduler", "--volumes", "--clusters", "200", "--seed", "1"),
    "kube-scheduler's devices": ("kube_scheduler", "--devices", "--clusters", "200", "--seed", "1"),
    "kube-scheduler's preemption": ("kube_scheduler", "--preemption", "--clusters", "200", "--seed", "1"),
    "kube-scheduler's preemption with storage": (
        *("kube_scheduler", "--preemption", "--volumes", "--clusters", "120", "--seed", "101"),
    ),
    "kube-scheduler's preemption with devices": (
        *("kube_scheduler", "--preemption", "--devices", "--clusters", "100", "--seed", "101"),
    ),
    "kube-scheduler's pod groups": ("pod_groups", "--clusters", "40", "--seed", "1"),
    "Kubernetes' allocator of devices": ("device_allocator", "--clusters", "300", "--seed", "1"),
    "Kubernetes' selectors of devices": ("device_selectors", "--selectors", "2000", "--seed", "1"),
    "rules that are broken on purpose": ("broken",),
}


def main() -> int:
    """Run all samples, or those whose names hold a word that is given."""
    words = sys.argv[1:]
    outcome: dict[str, str] = {}
    for name, (program, *options) in SAMPLES.items():
        if words and not any(word in f"{name} {program}" for word in words):
            continue
        print(f"== {name}: {program} {' '.join(options)}", flush=True)
        begun = time.monotonic()
        try:
            go_programs.check("volcano" if program in ("volcano", "broken") else "kubernetes")
        except go_programs.UnavailableError as reason:
            outcome[name] = f"skipped: {reason}"
            continue
        ran = subprocess.run([sys.executable, HERE / f"{program}.py", *options])
        verdict = {0: "as expected", go_programs.SKIPPED: "skipped: see above"}.get(ran.returncode, "DIFFERS")
        outcome[name] = f"{verdict}, after {time.monotonic() - begun:.0f} s"
    print("== samples")
    for name, verdict in outcome.items():
        print(f"   {name}: {verdict}")
    return 1 if any(verdict.startswith("DIFFERS") for verdict in outcome.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
