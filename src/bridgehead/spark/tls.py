"""The TLS of a broker's address."""

from __future__ import annotations

import ssl

from bridgehead.errors import SettingsError
from bridgehead.spark.options import Broker


def context_of(broker: Broker) -> ssl.SSLContext | None:
    """What ``mqtts://`` needs; raises SettingsError where a file cannot be used."""
    if not broker.secure:
        return None
    faults: list[tuple[str, str]] = []
    context = ssl.create_default_context()
    context.check_hostname = broker.verify_hostname
    try:
        if broker.ca_file is not None:
            context.load_verify_locations(broker.ca_file)
    except OSError as error:
        faults.append(("caFile", f"cannot be used: {error.strerror or error}"))
    try:
        if broker.cert_file is not None:
            context.load_cert_chain(broker.cert_file, broker.key_file)
    except OSError as error:
        faults.append(("certFile", f"cannot be used with its key: {error.strerror or error}"))
    if faults:
        raise SettingsError(faults)
    return context
