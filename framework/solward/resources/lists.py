"""What requests for a list have in common."""

from __future__ import annotations

from solward.resources.fields import Whole

LIMIT = Whole("How many at most.", least=1, most=500)
