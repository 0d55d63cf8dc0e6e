"""The asyncio shell around one MQTT connection, shared by the broker's side and the uplink's.

In: bytes of a socket, read into one shared buffer. Out: the same to an owner that speaks MQTT, and the owner's bytes to the
socket. Promised: the owner always knows how many of its bytes the kernel has taken; an incomplete packet is kept, and costs
memory only as its bytes arrive. All timers of a connection live in its owner, never in the protocol core.
"""
