"""HTTPS clients of a process share what they trust, as long as the environment names the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from solward.support.tls import tls_context


def test_clients_share_a_context_until_the_environment_names_other_authorities(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    shared = tls_context()
    assert tls_context() is shared
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    other = tls_context()
    assert other is not shared
    assert other.get_ca_certs() == []


def test_a_client_that_reads_no_variable_of_the_environment_trusts_the_same_whatever_it_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = tls_context(trust_env=False)
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    assert tls_context(trust_env=False) is before
    assert before.get_ca_certs()
