from __future__ import annotations

from pathlib import Path

import pytest

from solward.cluster import open_cluster
from solward.errors import LocalnetError
from solward.settings import Settings


async def test_a_ledger_file_in_use_or_of_another_kind_is_refused_in_words(tmp_path: Path) -> None:
    settings = Settings(_env_file=None, solward_home=tmp_path)
    async with open_cluster(settings):
        with pytest.raises(LocalnetError, match="open in another localnet"):
            async with open_cluster(settings):
                raise AssertionError("one ledger was opened twice")
    settings.localnet_path.write_bytes(b"no ledger" * 1000)
    with pytest.raises(LocalnetError, match="not a ledger"):
        async with open_cluster(settings):
            raise AssertionError("a file that is no ledger was opened")
