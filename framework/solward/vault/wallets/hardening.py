"""Hardening of a process that holds keys, at its entry point."""

from __future__ import annotations

import resource


def forbid_core_dumps() -> None:
    """A crash must not write this process's memory, keys included, to disk."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
