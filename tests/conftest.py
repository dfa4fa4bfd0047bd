"""What holds for every test."""

from __future__ import annotations

from hypothesis import settings

# A busy machine is no failure; pytest-timeout ends what hangs.
settings.register_profile("solward", deadline=None)
settings.load_profile("solward")
