"""Set-up shared by all tests: the Hypothesis profiles.

`default` is deterministic, so that the same commit gives the same answer everywhere.
`deep` looks for new counter-examples: choose it with HYPOTHESIS_PROFILE=deep.
"""

import os

from hypothesis import HealthCheck, settings

# Generating a whole cluster takes a while on a busy machine; that is no fault of the test.
UNHURRIED = [HealthCheck.too_slow]

settings.register_profile("default", max_examples=60, deadline=None, derandomize=True, suppress_health_check=UNHURRIED)
settings.register_profile("deep", max_examples=2_000, deadline=None, suppress_health_check=UNHURRIED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
