import base64
import random

import pytest
from tests.support.examples import examples
from tests.support.localnet import SOL, Chain, key, pay

from solward_localnet.jsonrpc import RpcError

MUTATIONS = 300
SEED = 20_261_121


def mutate(data: bytes, dice: random.Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(dice.choice([1, 1, 2, 8])):
        match dice.randrange(4):
            case 0:
                mutated[dice.randrange(len(mutated))] = dice.randrange(256)
            case 1:
                del mutated[dice.randrange(len(mutated)) :]
            case 2:
                mutated.insert(dice.randrange(len(mutated) + 1), dice.randrange(256))
            case _:
                mutated[dice.randrange(len(mutated))] ^= 1 << dice.randrange(8)
        if not mutated:
            mutated = bytearray(b"\0")
    return bytes(mutated)


@pytest.mark.property
async def test_mutated_bytes_are_refused_and_the_node_goes_on(chain: Chain) -> None:
    dice = random.Random(SEED)
    to = key()
    whole = bytes(await chain.transfer(to, SOL))
    supply = (await chain.value("getSupply"))["total"]
    codes = set()
    for number in range(examples(MUTATIONS)):
        mutated = mutate(whole, dice)
        if mutated == whole:
            continue
        text = base64.b64encode(mutated).decode("ascii")
        methods = [("sendTransaction", {"skipPreflight": number % 2 == 0})]
        methods.append(("simulateTransaction", {"replaceRecentBlockhash": number % 2 == 0}))
        for method, config in methods:
            try:
                await chain.call(method, text, {"encoding": "base64", **config})
            except RpcError as error:
                codes.add(error.code)
    assert codes <= {-32602, -32003, -32002}
    assert -32602 in codes
    assert await chain.call("getTransactionCount") == 1
    assert (await chain.value("getSupply"))["total"] == supply
    await chain.do(pay(chain.payer.pubkey(), to, SOL))
    assert await chain.balance(to) == SOL
