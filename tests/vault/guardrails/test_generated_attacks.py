"""Attacks mixed with harmless instructions, in any order and mount: each is refused by its rule.

The same instructions without the attack are allowed, so it is the attack that is refused.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from tests.support.examples import examples
from tests.vault.guardrails.bank import Bank, verdict
from tests.vault.guardrails.mixes import HIDDEN, LIMITS, MOUNTS, hidden, intent, over_a_limit

from solward.vault.guardrails.rules import RULES


def run(rounds: int, seed: int) -> None:
    rng = random.Random(seed)
    seen: Counter[str] = Counter()
    ran = mixed = 0
    for number in range(rounds):
        bank = Bank()
        attack = HIDDEN[number % len(HIDDEN)]
        mix, alone = hidden(bank, rng, attack)
        told = (number, attack.name, mix.mount, [bytes(one.data).hex() for one in mix.instructions])
        allowed = verdict(intent(bank), alone.effects)
        assert allowed.allowed, (told, allowed)
        judged = verdict(intent(bank), mix.effects)
        assert judged.rule == attack.rule, (told, judged)
        limit = LIMITS[number % len(LIMITS)]
        assert over_a_limit(bank, alone, limit).rule == limit, (told, limit)
        seen.update((attack.rule, limit, mix.mount))
        assert mix.ran or not attack.runs, told
        ran += mix.ran
        mixed += mix.harmless > 0
    assert set(RULES) | set(MOUNTS) <= set(seen)
    # What cannot run beside anything, or does not fit a packet, is judged alone.
    assert min(ran, mixed) > rounds * 0.8


@pytest.mark.property
def test_300_mixes_are_each_refused_by_the_attacks_own_rule() -> None:
    # Each attack at least once.
    run(examples(300, least=len(HIDDEN)), seed=3)


@pytest.mark.long
@pytest.mark.timeout(1_800)
def test_5000_mixes_are_each_refused_by_the_attacks_own_rule() -> None:
    run(5_000, seed=31)
