from __future__ import annotations

from solward.testing import Stand, TestWallet, conformance

from solward_plugin_template import tip, total

test_it_conforms = conformance.skill_test(total)


async def test_it_says_what_the_jar_holds(solward_stand: Stand, wallet: TestWallet) -> None:
    assert await wallet.run(total) == "The jar holds 0.0000 SOL."
    await solward_stand.fund(tip.JAR, 3)
    assert await wallet.run(total, decimals=1) == "The jar holds 3.0 SOL."
