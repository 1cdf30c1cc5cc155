"""Settings shared by every test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# compiled kernels may be built inside an example; a deadline would measure the compiler
settings.register_profile("steelyard", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
settings.load_profile("steelyard")
