"""Confinement of a process by Landlock, seccomp and limits; Linux, ctypes, nothing of Solward."""

from solward.hosts.confinement.confine import (
    Availability,
    Confinement,
    ConfinementUnavailable,
    available,
    confine,
    interpreter_paths,
)

__all__ = [
    "Availability",
    "Confinement",
    "ConfinementUnavailable",
    "available",
    "confine",
    "interpreter_paths",
]
