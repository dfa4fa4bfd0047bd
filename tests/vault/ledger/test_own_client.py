"""Why the money path has a ledger client of its own: what solana-py makes of a node's answers.

Each test measures one reason that docs/assurance/architecture.md gives. A red one means that a
release of solana-py or solders ended this reason: correct the page, and weigh the client again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from solana.rpc.async_api import AsyncClient
from solana.rpc.async_http_provider import AsyncHTTPProvider
from solders.errors import SerdeJSONError
from solders.signature import Signature

_MIB = 1 << 20
_STATUS = {
    "slot": 1,
    "confirmations": None,
    "err": None,
    "status": {"Ok": None},
    "confirmationStatus": "finalized",
}


def asking(answer: Callable[[httpx2.Request], httpx2.Response]) -> AsyncClient:
    """solana-py's client of a node that answers everything alike."""
    client = AsyncClient("http://node")
    client._provider.session = httpx2.AsyncClient(transport=httpx2.MockTransport(answer))
    return client


def saying(**body: Any) -> AsyncClient:
    return asking(lambda _: httpx2.Response(200, json={"jsonrpc": "2.0", "id": 1, **body}))


async def test_it_panics_on_an_error_that_lacks_its_data() -> None:
    """Some providers say -32005 to whoever asks too often. `except Exception` misses a panic."""
    client = saying(error={"code": -32005, "message": "request rate limited"})
    with pytest.raises(BaseException, match="missing field `data`") as caught:
        await client.get_slot()
    assert not isinstance(caught.value, Exception)


async def test_it_loses_a_list_for_one_error_that_it_does_not_know() -> None:
    unknown = _STATUS | {"err": "ErrorOfTomorrow", "status": {"Err": "ErrorOfTomorrow"}}
    signatures = [Signature.default()] * 2

    known = saying(result={"context": {"slot": 1}, "value": [_STATUS, None]})
    assert len((await known.get_signature_statuses(signatures)).value) == 2

    mixed = saying(result={"context": {"slot": 1}, "value": [_STATUS, unknown]})
    with pytest.raises(SerdeJSONError, match="did not match any variant"):
        await mixed.get_signature_statuses(signatures)


async def test_it_reads_as_many_bytes_as_a_node_sends() -> None:
    read = 0

    class Endless(httpx2.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal read
            for _ in range(32):
                read += _MIB
                yield b" " * _MIB

    client = asking(lambda _: httpx2.Response(200, stream=Endless()))
    with pytest.raises(SerdeJSONError, match="EOF"):
        await client.get_slot()
    assert read == 32 * _MIB


def test_it_knows_no_batches() -> None:
    names = {*dir(AsyncClient), *dir(AsyncHTTPProvider)}
    assert not [name for name in names if "batch" in name]
