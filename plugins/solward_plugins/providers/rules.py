"""The rule-based demo provider. It is not a language model and says so.

A strategy is one rule a line; the first that matches is the decision:

    every 6 cycles do swap inputToken=SOL outputToken=USDC amount=0.002
    when balance.SOL < 0.5 and cycle > 1 do airdrop amount=1
    always do wait

A condition compares `cycle` or `balance.<symbol or mint>` with a number; `every N cycles` may
stand before `when`. Values with spaces are quoted. Empty lines and lines that begin with `#` are
ignored. Any other line is refused, not guessed.
"""

from __future__ import annotations

import functools
import operator
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from solward import (
    Completion,
    CompletionRequest,
    ProviderError,
    ProviderSpec,
    ToolCall,
    hookimpl,
)

LABEL = "rule-based demo, not a language model"

_NUMBER = r"-?\d{1,20}(?:\.\d{1,20})?"
_RULE = re.compile(
    r"(?:(?P<always>always)"
    r"|(?:every\s+(?P<every>\d{1,9})\s+cycles?)?\s*(?:when\s+(?P<when>.+?))?)"
    r"\s*\bdo\s+(?P<skill>\w+)(?:\s+(?P<params>.+))?"
)
_COMPARISON = re.compile(
    rf"(?P<fact>cycle|balance\.\w+)\s*(?P<operator><=|>=|==|!=|<|>)\s*(?P<number>{_NUMBER})"
)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """`fact operator number`; the fact is `cycle` or `balance.<symbol or mint>`."""

    fact: str
    operator: str
    number: Decimal

    def holds(self, observation: Mapping[str, Any]) -> bool:
        """Return whether the comparison is true; raises `LookupError` if the fact is not known."""
        return _OPERATORS[self.operator](_fact_value(self.fact, observation), self.number)


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a strategy."""

    line: str
    every: int | None
    comparisons: tuple[Comparison, ...]
    skill: str
    params: Mapping[str, Any]

    def matches(self, observation: Mapping[str, Any]) -> bool:
        """Return whether its condition holds; raises `LookupError` if a fact is missing."""
        if self.every is not None and observation["cycle"] % self.every:
            return False
        return all(comparison.holds(observation) for comparison in self.comparisons)


@hookimpl
def provider_spec() -> ProviderSpec:
    """Return a demo provider without options and without a secret."""
    return ProviderSpec(
        name="rules",
        default_model="rules",
        options={"type": "object", "properties": {}, "additionalProperties": False},
        is_llm=False,
        demo=True,
    )


@hookimpl
async def provider_complete(request: CompletionRequest, options: Mapping[str, Any]) -> Completion:
    """Return the first matching rule's skill, with the rule as the reason."""
    rules = parse_rules(request.strategy, frozenset(tool.name for tool in request.tools) or None)
    if not request.observation:
        return Completion(f"I am a {LABEL}. My rules are:\n{request.strategy.strip()}")
    return decide(rules, request.observation)


def decide(rules: Collection[Rule], observation: Mapping[str, Any]) -> Completion:
    """Decide by the first matching rule; decide to wait if none matches or a fact is missing."""
    for rule in rules:
        try:
            matched = rule.matches(observation)
        except LookupError as error:
            return Completion(f"Waiting: cannot evaluate {rule.line!r}: {error.args[0]} ({LABEL}).")
        if matched:
            call = ToolCall(rule.skill, dict(rule.params))
            return Completion(f"Matched rule: {rule.line} ({LABEL}).", (call,))
    return Completion(f"No rule matched; waiting ({LABEL}).")


@functools.lru_cache(maxsize=1_024)
def parse_rules(strategy: str, skills: frozenset[str] | None = None) -> tuple[Rule, ...]:
    """Parse the rules of a strategy, one a line.

    Args:
        skills: names that may be used; None checks no names.

    Raises:
        ProviderError: naming the line; also when there is no rule at all.
    """
    lines = (line.strip() for line in strategy.splitlines())
    rules = tuple(_parse_rule(line, skills) for line in lines if line and not line.startswith("#"))
    if not rules:
        raise ProviderError(
            "The strategy has no rule; write lines such as: "
            "when balance.SOL < 0.5 do airdrop amount=1"
        )
    return rules


def _parse_rule(line: str, skills: Collection[str] | None) -> Rule:
    found = _RULE.fullmatch(line)
    if found is None:
        raise _rule_error(line, "expected '[every N cycles] [when ...] do SKILL name=value ...'")
    every = None if found["every"] is None else int(found["every"])
    if every == 0:
        raise _rule_error(line, "the N of 'every N cycles' must be at least 1")
    if skills is not None and found["skill"] not in skills:
        raise _rule_error(line, f"no skill named {found['skill']!r}")
    comparisons: list[Comparison] = []
    for part in re.split(r"\s+and\s+", found["when"] or ""):
        comparison = _COMPARISON.fullmatch(part.strip())
        if comparison is not None:
            comparisons.append(
                Comparison(
                    comparison["fact"], comparison["operator"], Decimal(comparison["number"])
                )
            )
        elif part:
            raise _rule_error(line, f"cannot read the condition {part!r}")
    return Rule(line, every, tuple(comparisons), found["skill"], _params(line, found["params"]))


def _params(line: str, text: str | None) -> dict[str, Any]:
    try:
        words = shlex.split(text or "")
    except ValueError:
        raise _rule_error(line, "a quote is not closed") from None
    params: dict[str, Any] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name.isidentifier():
            raise _rule_error(line, f"expected name=value, not {word!r}")
        if name in params:
            raise _rule_error(line, f"{name} is given twice")
        params[name] = _parse_literal(value)
    return params


def _parse_literal(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if re.fullmatch(_NUMBER, text):
        return Decimal(text) if "." in text else int(text)
    return text


def _fact_value(fact: str, observation: Mapping[str, Any]) -> Any:
    if fact == "cycle":
        return observation["cycle"]
    if "solBalance" not in observation:
        raise LookupError("the wallet could not be observed")
    name = fact.removeprefix("balance.")
    if name == "SOL":
        return observation["solBalance"]
    for token in observation["tokenBalances"]:
        if name in (token.get("symbol"), token["mint"]):
            return token["uiBalance"]
    return Decimal(0)


def _rule_error(line: str, why: str) -> ProviderError:
    return ProviderError(f"The strategy line {line[:200]!r} is not a rule: {why}")
