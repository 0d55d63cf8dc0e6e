"""``mosquitto.conf`` as its options, each with its place, sorted to what it belongs to: the broker, a listener, a bridge."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bridgehead.commands.importing.writing import read
from bridgehead.errors import CommandError

MOST_FILES: Final = 1000
"""Of an ``include_dir``."""

OF_BRIDGES: Final = frozenset((
    "address", "addresses", "topic", "cleansession", "local_cleansession", "clientid", "remote_clientid",
    "local_clientid", "username", "remote_username", "local_username", "password", "remote_password", "local_password",
    "keepalive_interval", "idle_timeout", "threshold", "start_type", "try_private", "notifications",
    "notifications_local_only", "notification_topic", "restart_timeout", "round_robin",
))  # fmt: skip
"""And whatever begins with bridge_."""
OF_LISTENERS: Final = frozenset((
    "port", "bind_address", "bind_interface", "http_dir", "max_connections", "max_qos", "max_topic_alias",
    "mount_point", "protocol", "socket_domain", "use_username_as_clientid", "websockets_headers_size", "cafile",
    "capath", "certfile", "ciphers", "ciphers_tls1.3", "crlfile", "dhparamfile", "keyfile", "require_certificate",
    "tls_engine", "tls_engine_kpass_sha1", "tls_keyform", "tls_version", "use_identity_as_username",
    "use_subject_as_username", "psk_hint",
))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Option:
    name: str
    value: str
    place: str


@dataclass(slots=True)
class Section:
    """A listener or a bridge; ``opening`` is the option it begins with."""

    opening: Option
    options: list[Option] = field(default_factory=list)


@dataclass(slots=True)
class Conf:
    general: list[Option] = field(default_factory=list)
    listeners: list[Section] = field(default_factory=list)
    bridges: list[Section] = field(default_factory=list)
    missing: list[Option] = field(default_factory=list)  # directories to include that are not there


def parse_conf(path: Path) -> Conf:
    """The options of a file and of those it includes, in order."""
    conf = Conf()
    for option in _options(path, conf):
        if option.name == "connection":
            conf.bridges.append(Section(option))
        elif option.name == "listener":
            conf.listeners.append(Section(option))
        elif option.name in OF_BRIDGES or option.name.startswith("bridge_"):
            if not conf.bridges:
                raise CommandError(f"{option.place}: stands before any connection")
            conf.bridges[-1].options.append(option)
        elif option.name in OF_LISTENERS:
            if not conf.listeners:  # those before the first one are of the default listener
                conf.listeners.append(Section(Option("listener", "", option.place)))
            conf.listeners[-1].options.append(option)
        else:
            conf.general.append(option)
    return conf


def _options(path: Path, conf: Conf, *, included: bool = False) -> Iterator[Option]:
    for number, raw in enumerate(read(path).split(b"\n"), 1):
        try:
            line = raw.decode().strip()
        except UnicodeDecodeError:
            raise CommandError(f"{path} (line {number}): not UTF-8 text") from None
        if not line or line.startswith("#"):
            continue
        name, _, value = line.partition(" ")
        option = Option(name, value.strip(), f"{f'{path.name}: ' if included else ''}{name} (line {number})")
        if not option.value:
            raise CommandError(f"{path} (line {number}): {name} has no value")
        if name == "include_dir" and not included:
            yield from _included(Path(option.value), option, conf)
        else:
            yield option


def _included(directory: Path, option: Option, conf: Conf) -> Iterator[Option]:
    if not directory.is_dir():
        conf.missing.append(option)
        return
    files = sorted(directory.glob("*.conf"))
    if len(files) > MOST_FILES:
        raise CommandError(f"{option.place}: more than {MOST_FILES} files")
    for file in files:
        yield from _options(file, conf, included=True)
