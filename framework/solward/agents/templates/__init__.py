"""Agent templates: named starting points with a strategy, an interval, guardrails and grants.

`template` says what one is and fills in its parameters, `built_in` declares those that there are,
finds the one that a request names and checks that it can work here.
"""

from solward.agents.templates.built_in import TEMPLATES, check_fits, missing_skills, template_of
from solward.agents.templates.template import AgentTemplate, Filled

__all__ = [
    "TEMPLATES",
    "AgentTemplate",
    "Filled",
    "check_fits",
    "missing_skills",
    "template_of",
]
