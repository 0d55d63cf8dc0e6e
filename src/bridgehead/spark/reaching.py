"""The way to a broker's address."""

from __future__ import annotations

from bridgehead.bridge.dialling import Credentials, Way
from bridgehead.link.trust import Contexts, Trust
from bridgehead.spark.options import Broker


def way_to(broker: Broker) -> Way:
    """With TLS for ``mqtts://``; raises SettingsError where a file cannot be used."""
    if not broker.secure:
        return Way()
    trust = Trust(
        ca_file=broker.ca_file, cert_file=broker.cert_file, key_file=broker.key_file, verify_hostname=broker.verify_hostname
    )
    contexts = Contexts(trust)
    contexts.current()  # whoever starts a query is told at once
    return Way(tls=contexts)


def credentials_at(broker: Broker) -> Credentials:
    password = None if broker.password is None else broker.password.get_secret_value().encode()
    return Credentials(broker.username, password)
