"""Certificates of a private authority, for servers of tests that speak TLS."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

USAGES = (
    "digital_signature", "content_commitment", "key_encipherment", "data_encipherment",
    "key_agreement", "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
)  # fmt: skip


def issued(folder: Path, *names: str) -> tuple[Path, Path]:
    """The certificate of an authority, and one that it issued for these names, with its key."""
    now = datetime.now(UTC)

    def common_name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    def builder(subject: str, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(common_name(subject))
            .issuer_name(common_name("ca"))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(hours=1))
            # Python 3.13 asks for these and for `KeyUsage` (RFC 5280, 4.2.1).
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(of_issuer, False)
        )

    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key())
    signs_others = dict.fromkeys(USAGES, False) | {"key_cert_sign": True, "crl_sign": True}
    ca = (
        builder("ca", ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**signs_others), critical=True)
        .sign(ca_key, hashes.SHA256())
    )
    alternatives = x509.SubjectAlternativeName(map(x509.DNSName, names))
    site = (
        builder(names[0], key)
        .add_extension(alternatives, critical=False)
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    (folder / "ca.pem").write_bytes(ca.public_bytes(pem))
    plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (folder / "site.pem").write_bytes(site.public_bytes(pem) + key.private_bytes(pem, *plain))
    return folder / "ca.pem", folder / "site.pem"
