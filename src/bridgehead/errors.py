"""The whole exception tree.

    BridgeheadError
    ├── SettingsError        the configuration cannot be used; carries every fault with its path
    ├── ProtocolError        the peer broke MQTT; carries the reason code it is told
    ├── RefusedError         a request was understood and refused; carries the reason
    │   ├── NotThereError    what it is about does not exist
    │   ├── ConflictError    what it would make exists already
    │   ├── StaleEpochError  a pipeline of an earlier life asked; it must end
    │   └── NotRetainedError rows were asked for that the journal has let go of; carries the range
    ├── TransformError       what a user's transform is, or makes, cannot be used; the text says why
    ├── StorageError         the disk has failed
    │   └── DamageError      what is on it is not what was written there
    ├── ArchiveError         an archive cannot be written; its batch is tried again
    ├── StartError           the node cannot start (a taken port, an unusable directory)
    └── CommandError         a command cannot do what was asked; the text is all the user sees
        └── NotRunningError  no node answers: what needs a running one cannot be done, the rest is done in its dataDir

Anything else that escapes is a bug of ours.
"""

from __future__ import annotations


class BridgeheadError(Exception):
    """Root of everything Bridgehead raises on purpose."""


class SettingsError(BridgeheadError):
    """The configuration cannot be used. ``faults`` lists (path in the file, what is wrong)."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        self.faults = faults
        super().__init__("\n".join(f"{path}: {fault}" if path else fault for path, fault in faults))


class ProtocolError(BridgeheadError):
    """The peer broke the protocol. ``reason`` is the MQTT 5 reason code that says how."""

    def __init__(self, reason: int, message: str) -> None:
        self.reason = reason
        super().__init__(message)


class RefusedError(BridgeheadError):
    """A well-formed request that is refused; the text is the reason."""


class NotThereError(RefusedError):
    """Something was asked of what does not exist."""


class ConflictError(RefusedError):
    """What is to be made exists already."""


class StaleEpochError(RefusedError):
    """A pipeline of an earlier life spoke; its epoch is over."""


class NotRetainedError(RefusedError):
    """Rows [start, end) of a log were asked for that are not retained any more."""

    def __init__(self, log: str, start: int, end: int) -> None:
        self.log, self.start, self.end = log, start, end
        super().__init__(f"offsets [{start}, {end}) of the log {log} are not retained any more")


class TransformError(BridgeheadError):
    """A transform cannot be used, or made a row that is no message; one line says why."""


class StorageError(BridgeheadError):
    """Stored data is damaged, or the disk takes no more; the text says which."""


class DamageError(StorageError):
    """What is on the disk is not what was written there."""


class ArchiveError(BridgeheadError):
    """The archive of a route cannot be written; the text says which, and why."""


class StartError(BridgeheadError):
    """The node cannot start; one line says why."""


class CommandError(BridgeheadError):
    """A command cannot do what was asked; one line says why."""


class NotRunningError(CommandError):
    """No node answers where the configuration says that it would."""
