"""The keys of one control plane: throw-away, on disk only as long as it runs."""

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
# Kueue renews what is valid for less than 90 days, and would write into a Secret of its own.
_VALID: Final = datetime.timedelta(days=365)
_RSA_BITS: Final = 2048
_LOCAL: Final = ("localhost", "127.0.0.1")
SERVER: Final = ExtendedKeyUsageOID.SERVER_AUTH
CLIENT: Final = ExtendedKeyUsageOID.CLIENT_AUTH


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as PEM files.

    Args:
        certificate: Path of the certificate.
        key: Path of the key.
    """

    certificate: Path
    key: Path


class Authority:
    """A certificate authority in a folder.

    Args:
        folder: Where its files go; made if need be.
        name: Common name, and a DNS name of the certificate.
        rsa_key: An RSA key in PKCS#1 form instead of an EC key: Kueue reads no other
            (`x509.ParsePKCS1PrivateKey` in cert-controller's rotator).
    """

    def __init__(self, folder: Path, name: str, *, rsa_key: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder
        self._key: _Key = _rsa() if rsa_key else _ec()
        usage = x509.KeyUsage(True, False, True, False, False, True, True, False, False)
        self._certificate = (
            _builder(_subject(name))
            .issuer_name(_subject(name))
            .public_key(self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        self.pair = _write(folder, "ca", self._certificate, self._key)

    def issue(
        self,
        name: str,
        purpose: x509.ObjectIdentifier,
        *,
        organization: str = "",
        also_at: tuple[str, ...] = (),
    ) -> Pair:
        """A certificate for a server on the loopback interface, or for a client.

        Args:
            name: Common name; names the files too.
            purpose: `SERVER` or `CLIENT`.
            organization: Organization, which Kubernetes reads as the group.
            also_at: Further DNS names and addresses of a server.
        """
        key = _ec()
        names = [_general_name(each) for each in (*_LOCAL, *also_at)]
        certificate = (
            _builder(_subject(name, organization))
            .issuer_name(self._certificate.subject)
            .public_key(key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return _write(self._folder, name, certificate, key)


def service_account_key(path: Path) -> Path:
    """An RSA key with which service-account tokens are signed and checked."""
    _write_private(path, _pem(_rsa()))
    return path


def _ec() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def _rsa() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=_RSA_BITS)


def _subject(name: str, organization: str = "") -> x509.Name:
    parts = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
    return x509.Name([*parts, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(subject: x509.Name) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + _VALID)
    )


def _general_name(text: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(text))
    except ValueError:
        return x509.DNSName(text)


def _pem(key: _Key) -> bytes:
    """PKCS#1 for RSA, SEC 1 for EC: the form that every reader here understands."""
    form = serialization.PrivateFormat.TraditionalOpenSSL
    return key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption())


def _write(folder: Path, name: str, certificate: x509.Certificate, key: _Key) -> Pair:
    pair = Pair(folder / f"{name}.crt", folder / f"{name}.key")
    pair.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    _write_private(pair.key, _pem(key))
    return pair


def _write_private(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)
