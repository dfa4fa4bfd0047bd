"""`solward agent create` and `templates`: what fills in what is left out, and what errors say."""

from __future__ import annotations

import pytest
from tests.promises import promise
from tests.support.cli import Live

DEFAULTS = {"DEFAULT_LLM_PROVIDER": "rules", "DEFAULT_LLM_MODEL": "rules-of-mine"}
RULE = ("--strategy", "always do wait")


def made(live: Live, *arguments: str, **environment: str) -> dict[str, object]:
    answer = live.json("agent", "create", *arguments, **environment)
    found: dict[str, object] = live.get(f"/agents/{answer['id']}")
    return found


def refusal(live: Live, *arguments: str) -> str:
    """What a command that makes nothing says, on one line."""
    result = live.invoke(*arguments)
    assert result.exit_code in (1, 2)
    return " ".join(result.stderr.split())


@pytest.mark.more
def test_a_provider_without_a_model_gets_its_own(live: Live) -> None:
    agent = made(live, "one", "--wallet", live.wallet(0), "--llm-provider", "rules", *RULE)
    assert agent["llmModel"] == "rules"


@promise("default-model-fits-provider")
def test_the_default_model_is_the_default_providers_alone(live: Live) -> None:
    wallet = live.wallet(0)
    agent = made(live, "two", "--wallet", wallet, *RULE, **DEFAULTS)
    assert (agent["llmProvider"], agent["llmModel"]) == ("rules", "rules-of-mine")
    agent = made(live, "three", "--wallet", wallet, "--llm-provider", "rules", *RULE, **DEFAULTS)
    assert agent["llmModel"] == "rules-of-mine"
    others = DEFAULTS | {"DEFAULT_LLM_PROVIDER": "openai"}
    agent = made(live, "four", "--wallet", wallet, "--llm-provider", "rules", *RULE, **others)
    assert (agent["llmProvider"], agent["llmModel"]) == ("rules", "rules")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (RULE, "Give --llm-provider, or set DEFAULT_LLM_PROVIDER; one of: "),
        (RULE, "rules (no language model)"),
        ((*RULE, "--llm-provider", "none"), "llmProvider must be one of: "),
        ((), "Give --strategy, --strategy-file or --template"),
        (("--template", "thief", "--llm-provider", "rules"), "template must be one of: balance-"),
        (
            ("--template", "balance-reporter", "--llm-provider", "rules"),
            "needs a language model, and the provider 'rules' is not one",
        ),
    ],
    ids=range(6),
)
def test_what_is_missing_is_said(live: Live, arguments: tuple[str, ...], said: str) -> None:
    wallet = live.wallet(0)
    assert said in refusal(live, "agent", "create", "wrong", "--wallet", wallet, *arguments)


def test_a_template_fills_what_is_left_out(live: Live) -> None:
    agent = made(
        live, "buyer", "--template", "dollar-cost-averager", "--llm-provider", "rules", *RULE
    )
    assert (agent["strategy"], agent["loopIntervalMs"]) == ("always do wait", 21_600_000)
    (grants,) = live.get(f"/agents/{agent['id']}/limits")["grants"]
    assert "swap up to 0.01 SOL at once and 0.04 a day" in grants["grants"][0]["sentence"]


@pytest.mark.more
def test_templates_show_what_can_leave(live: Live) -> None:
    listed = live.invoke("agent", "templates")
    assert "dollar-cost-averager" in listed.output
    shown = live.invoke("agent", "templates", "dollar-cost-averager", COLUMNS="200")
    assert "0.04 SOL" in shown.output
    assert "You buy USDC at regular times" in shown.output
    own = live.json("agent", "templates", "dollar-cost-averager")
    assert own["canLeave"]["assets"]["SOL"] == {"most": "0.04"}
    assert "no template is named 'x'" in refusal(live, "agent", "templates", "x")
