"""The configuration of a node.

In:       a YAML file and the environment (or plain data with the same keys).
Out:      one frozen ``Settings``, complete: every default filled in, every relative path made absolute.
Promised: what comes out can be used as it is; all that is wrong is told at once, with path and line, without secrets.
Refused:  unknown keys, keys given twice, unset variables, values out of bounds, rules that contradict each other, and
          what is not supported yet (``notyet``), always as ``bridgehead.errors.SettingsError``.

    load      the door                model     the root, made of   listener, keeping, pipeline, bridge, route, tls
    document  YAML with lines         across    rules between keys  environment  ${ENV:NAME}
    notyet    what is still to come   topics    filters, destinations          fault  path and text
"""

from bridgehead.settings.bridge import Bridge
from bridgehead.settings.listener import Console, Listener
from bridgehead.settings.load import default_settings, from_document, load, parse
from bridgehead.settings.model import Settings
from bridgehead.settings.route import Direction, Route

__all__ = [
    "Bridge", "Console", "Direction", "Listener", "Route", "Settings",
    "default_settings", "from_document", "load", "parse",
]  # fmt: skip
