"""Creates a wallet, pays and is refused, by the client that openapi-python-client generated.

`python pay.py ADDRESS TOKEN SELLER`, beside the package `solward_client`; prints what came of it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from solward_client import AuthenticatedClient
from solward_client.api.money import airdrop, swap, transfer
from solward_client.api.payments import pay
from solward_client.api.wallets import create_wallet, get_balance
from solward_client.models import (
    AirdropBody,
    CreateWalletBody,
    PayBody,
    SwapBody,
    TransferBody,
)

address, token, seller = sys.argv[1:]
client = AuthenticatedClient(
    base_url=address, token=token, raise_on_unexpected_status=True, timeout=60
)


def called(operation: Any, *path: Any, **fields: Any) -> tuple[int, Any]:
    """The status and the parsed answer."""
    answer = operation.sync_detailed(*path, client=client, **fields)
    return answer.status_code.value, answer.parsed


_, made = called(create_wallet, body=CreateWalletBody(name="generated"))
_, payee = called(create_wallet, body=CreateWalletBody(name="payee"))
wallet = made.wallet_id
called(airdrop, wallet, body=AirdropBody(amount=2))
bought, _ = called(swap, wallet, body=SwapBody("SOL", "USDC", 0.1))
sent, record = called(transfer, wallet, body=TransferBody(to=payee.address, amount=0.5))
over, refusal = called(transfer, wallet, body=TransferBody(to=payee.address, amount=1000))
paid, answer = called(pay, wallet, body=PayBody(url=seller, max_="0.05 USDC"))
dear, too_dear = called(pay, wallet, body=PayBody(url=seller, max_="0.005 USDC"))
_, balance = called(get_balance, payee.wallet_id)
print(
    json.dumps(
        {
            "statuses": [bought, sent, over, paid, dear],
            "transfer": record.status,
            "refusals": [refusal.error, too_dear.error],
            "served": answer.payment.served,
            "payee": balance.sol,
        }
    )
)
