"""Plugins: found by entry point, checked, bound, and run through one chain."""

from solward.registry.chain import run_skill
from solward.registry.load import load_registry
from solward.registry.loaded import LoadedProvider, LoadedSkill, LoadedVenue, Registry
from solward.registry.problems import Problem, ProblemCode

__all__ = [
    "LoadedProvider",
    "LoadedSkill",
    "LoadedVenue",
    "Problem",
    "ProblemCode",
    "Registry",
    "load_registry",
    "run_skill",
]
