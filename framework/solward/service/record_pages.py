"""Pages of transaction records as JSON, of which each record that has ended is written once."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.support import jsontext
from solward.support.kept_texts import KeptTexts
from solward.types.record import TransactionStatus
from solward.vault.store import transactions

# About 15,000 records.
MOST_BYTES = 16 * 1024 * 1024


class RecordPages:
    """The JSON of records. What has ended is kept: every UPDATE of a record asks that it is
    `pending`, so that an ended one never changes, whichever process ends it."""

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        # By id and whether the fee is in it.
        self._kept: KeptTexts[tuple[str, bool]] = KeptTexts(most_bytes)

    async def page(
        self,
        connection: AsyncConnection,
        wallet_id: str | None,
        limit: int,
        before: str | None,
        *,
        fee: bool = False,
    ) -> list[bytes]:
        """The records of `transactions.history`, each as JSON in UTF-8.

        One query, and a second one for those that are not kept.

        Args:
            fee: see `TransactionRecord.to_json`.
        """
        ids = await transactions.history_ids(connection, wallet_id, limit, before)
        return await self.texts(connection, ids, fee=fee)

    async def texts(
        self, connection: AsyncConnection, ids: Sequence[str], *, fee: bool = False
    ) -> list[bytes]:
        """The records of these ids, in their order, each as JSON in UTF-8; one query, for those
        that are not kept."""
        texts = {id_: self._kept.get((id_, fee)) for id_ in ids}
        missing = [id_ for id_, text in texts.items() if text is None]
        if missing:
            for id_, record in (await transactions.of_ids(connection, missing)).items():
                text = texts[id_] = jsontext.dumps(record.to_json(fee=fee)).encode()
                if record.status is not TransactionStatus.PENDING:
                    self._kept.keep((id_, fee), text)
        return [text for text in texts.values() if text is not None]
