"""Cipher suites of TLS 1.2 by the names that people have for them. Those of TLS 1.3 are few, all good, and cannot be chosen."""

from __future__ import annotations

import re
import ssl
from typing import Annotated

from pydantic import AfterValidator


def openssl_name(suite: str) -> str:
    """The name that OpenSSL has for a suite; IANA's names, which Java has, follow a pattern."""
    if not suite.startswith("TLS_") or "_WITH_" not in suite:
        return suite
    exchange, cipher = suite.removeprefix("TLS_").split("_WITH_", 1)
    cipher = re.sub(r"AES_(\d+)_(CBC_)?", r"AES\1_", cipher).replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")


def _suite(text: str) -> str:
    name = openssl_name(text)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if name in (each["name"] for each in context.get_ciphers() if each["protocol"] == "TLSv1.3"):
        raise ValueError("belongs to TLS 1.3, whose suites cannot be chosen; name those of TLS 1.2")
    try:
        context.set_ciphers(name)
    except ssl.SSLError:
        raise ValueError("is no cipher suite that this machine's OpenSSL knows") from None
    return name


CipherSuite = Annotated[str, AfterValidator(_suite)]
