"""The checks of declarations, as they were read from a plugin; run in the service alone."""

from __future__ import annotations

import math
import re

from solward.errors import InvalidRequest
from solward.provider import ProviderSpec
from solward.registry.hooks import broken
from solward.registry.parameters import Parameters
from solward.settings.settings import allowed_for_providers
from solward.skill import Effects, SkillSpec

MAX_DESCRIPTION = 1_024
MAX_TIMEOUT_S = 600.0
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,127}")


def check_skill(spec: SkillSpec) -> None:
    """Raises `Rejected`, naming the first field of `SkillSpec` that is out of range."""
    text = spec.description
    if not isinstance(text, str) or not text.strip() or len(text) > MAX_DESCRIPTION:
        raise broken(f"description must be text of 1 to {MAX_DESCRIPTION} characters")
    if not isinstance(spec.effects, Effects):
        raise broken("effects must be Effects.READ or Effects.SPEND")
    timeout = spec.timeout_s
    known = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not known or not math.isfinite(timeout) or not 0 < timeout <= MAX_TIMEOUT_S:
        raise broken(f"timeout_s must be more than 0 and at most {MAX_TIMEOUT_S:g} seconds")


def check_examples(spec: SkillSpec, parameters: Parameters) -> None:
    """Raises `Rejected`, naming the first example that does not fit the skill's schema."""
    if not isinstance(spec.examples, tuple):
        raise broken("examples must be a tuple of parameter objects")
    for at, example in enumerate(spec.examples):
        try:
            parameters.validate(example)
        except InvalidRequest as error:
            raise broken(f"examples[{at}]: {error}") from None


def check_provider(spec: ProviderSpec) -> None:
    """Raises `Rejected`, naming the first field of `ProviderSpec` that is out of range."""
    if not isinstance(spec.default_model, str) or not spec.default_model.strip():
        raise broken("default_model must name a model")
    for field in ("secret_env", "base_url_env"):
        variable = getattr(spec, field)
        if variable is None:
            continue
        if not isinstance(variable, str) or not _VARIABLE.fullmatch(variable):
            raise broken(f"{field} must be an environment variable's name or None")
        if not allowed_for_providers(variable):
            raise broken(f"{field} must not be {variable}, which is Solward's own")
    if not isinstance(spec.is_llm, bool) or not isinstance(spec.demo, bool):
        raise broken("is_llm and demo must be True or False")
