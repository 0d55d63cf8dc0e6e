"""Certificates for tests, made by openssl: an authority, and what it vouches for."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Authority:
    """A CA of its own in a directory."""

    directory: Path
    name: str = "ca"

    def __post_init__(self) -> None:
        _openssl("req", "-x509", *_NEW_KEY, "-keyout", self._key, "-out", self.cert, *_VALID, "-subj", f"/CN={self.name}")

    @property
    def cert(self) -> Path:
        return self.directory / f"{self.name}.pem"

    @property
    def _key(self) -> Path:
        return self.directory / f"{self.name}.key"

    def vouch(self, name: str, *addresses: str, days: int = 2) -> tuple[Path, Path]:
        """The certificate and the key of somebody at these IP addresses; with negative ``days`` it has expired."""
        cert, key, request = (self.directory / f"{name}.{end}" for end in ("pem", "key", "csr"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName=" + ",".join(f"IP:{address}" for address in addresses) if addresses else "")
        _openssl("req", *_NEW_KEY, "-keyout", key, "-out", request, "-subj", f"/CN={name}")
        signed_by = ("-CA", self.cert, "-CAkey", self._key, "-CAcreateserial", "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, "-out", cert, "-days", str(days), *signed_by)
        return cert, key

    def bundle(self, cert: Path, key: Path, password: str) -> Path:
        """The same as one PKCS12 file."""
        file = cert.with_suffix(".p12")
        secret = ("-passout", f"pass:{password}")
        _openssl("pkcs12", "-export", "-in", cert, "-inkey", key, "-certfile", self.cert, "-out", file, *secret)
        return file


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_VALID = ("-days", "2")


def _openssl(*arguments: str | Path) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True, timeout=30)
