"""The numbers in a refusal's sentence: what was asked, what is allowed, and what of it is left.

Read back from the sentences of `rules` and of the grants, so that older records have them too; each
form is tested against the sentence that its rule writes. A sentence of anybody else, such as a
plugin's rule, has none, even one that is written like ours, and a name in it is never read as a
number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from solward.vault.guardrails.grants.judged import GRANTS_RULE
from solward.vault.guardrails.rules import RULES

# No plugin's rule has one of these names.
_OURS: Final = frozenset((*RULES, GRANTS_RULE))
_A: Final = r"\$?[0-9]+(?:\.[0-9]+)?%?"
_UNIT: Final = r"(?:tokens|smallest units) of mint [1-9A-HJ-NP-Za-km-z]{32,44}"
# A principal as grants write one: a plain word, or quoted, escaped and with its id.
_NAME: Final = r'(?:"(?:[^"\\]|\\.)*"(?: \((?:[\w.-]+|"(?:[^"\\]|\\.)*")\))?|[^\s"]+)'
_WHO: Final = rf"[a-z]+ {_NAME}"
_OF_GRANT: Final = r"[A-Z0-9a-z]+(?: smallest units)?(?: of fees and rent)?"
# How a unit looks that stands behind an amount in a grant's sentence.
_BEHIND: Final = rf"(?: (?P<unit>{_OF_GRANT}))?"
_PERIOD: Final = r"(?:a minute|an hour|[0-9]+ (?:minutes|hours|days))"

_FORMS: Final = tuple(
    re.compile(form)
    for form in (
        # The built-in rules, in their order.
        rf"(?P<asked>{_A}) (?P<unit>SOL) is more than the (?P<limit>{_A}) SOL allowed per"
        r" transaction",
        rf"(?P<asked>{_A}) (?P<unit>SOL) is more than the (?P<left>{_A}) SOL left of the"
        rf" (?P<limit>{_A}) SOL allowed in (?P<window>24 hours); (?P<used>{_A}) SOL is spent",
        rf"(?P<asked>{_A}) (?P<unit>{_UNIT}) are more than the (?P<left>{_A}) left of the"
        rf" (?P<limit>{_A}) allowed in (?P<window>24 hours); (?P<used>{_A}) are spent",
        r"(?P<used>[0-9]+) (?P<unit>transactions) in the last (?P<window>minute) leave none of"
        r" the (?P<limit>[0-9]+) allowed",
        rf"fees and rent of up to (?P<asked>{_A}) (?P<unit>SOL) are more than the (?P<left>{_A})"
        rf" SOL left of the (?P<limit>{_A}) SOL allowed in (?P<window>24 hours);"
        rf" (?P<used>{_A}) SOL is spent",
        rf"a network fee of (?P<asked>{_A}) (?P<unit>SOL) is more than the (?P<limit>{_A}) SOL",
        rf"rent of (?:up to )?(?P<asked>{_A}) (?P<unit>SOL) is more than the (?P<limit>{_A}) SOL",
        r"(?P<asked>[0-9]+) (?P<unit>new accounts) are more than the (?P<limit>[0-9]+) allowed",
        rf"(?P<asked>{_A}) (?P<unit>SOL) (?:would|could) leave the wallet, (?P<limit>{_A}) SOL is",
        rf"(?P<asked>{_A}) (?P<unit>{_UNIT}) (?:would|could) leave the wallet, (?P<limit>{_A}) are",
        r"the swap would move the price by (?P<asked>[0-9]+) (?P<unit>basis points), more than the"
        r" (?P<limit>[0-9]+) allowed",
        # Grants.
        rf"(?P<asked>{_A}){_BEHIND} is more than the (?P<limit>{_A})(?: {_OF_GRANT})? at once that",
        rf"(?P<asked>{_A})(?: of)?{_BEHIND} is more than the (?P<limit>{_A})(?: {_OF_GRANT})?"
        rf" in (?P<window>{_PERIOD}) that",
        rf"Grant [0-9]+ of {_WHO} has (?P<left>{_A}) of (?P<limit>{_A}){_BEHIND} left in"
        rf" (?P<window>{_PERIOD}); (?P<asked>{_A})(?: of {_OF_GRANT})? (?:is|are) asked",
        rf"Grant [0-9]+ of {_WHO} allows (?P<limit>[0-9]+) (?P<unit>transactions?) in"
        rf" (?P<window>{_PERIOD}); (?P<used>[0-9]+) w",
        rf"(?P<asked>{_A}) (?P<unit>slippage|price impact) is more than the (?P<limit>{_A}) that",
    )
)
NUMBERS: Final = ("asked", "limit", "left", "used", "unit", "window")
"""What is found, where the sentence says it: amounts in `unit`, as text; dollars begin with `$`."""


def numbers_of(rule: str, reason: str) -> Mapping[str, str]:
    """What a refusal says of `NUMBERS`; empty where it says none, as that of a blocked address, and
    where the rule that wrote it is not our own."""
    if rule not in _OURS:
        return {}
    for form in _FORMS:
        found = form.match(reason)
        if found is not None:
            return {name: each for name, each in found.groupdict().items() if each is not None}
    return {}
