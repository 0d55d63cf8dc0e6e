"""PURE: the MQTT conversation with one peer. No socket, no clock, no asyncio: bytes in, events and bytes out, time passed in.

``stream`` turns a peer's bytes into runs of publishes (scanned into an intake), acknowledgements and control packets;
``sender`` turns queued rows into PUBLISH frames and acknowledgements into finished rows. The broker's side and the uplink's
side both stand on these two. Refused: whatever breaks the protocol, with the reason code that says how.
"""
