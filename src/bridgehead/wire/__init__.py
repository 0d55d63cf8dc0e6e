"""MQTT on the wire: bytes to packets and back. Pure: no sockets, no clock, no asyncio.

In:       the bytes of one MQTT control packet (3.1, 3.1.1 or 5.0), or a packet object to be written.
Out:      a packet object (``packets``), or its bytes; for PUBLISH in bulk, columns (``kernels``).
Promised: what ``decode`` lets through keeps every rule of the standard that one packet alone can keep or break, and
          ``decode(encode(p)) == p``. Versions share one path; ``version`` is 3, 4 (3.1.1) or 5.
Refused:  everything else, always as ``bridgehead.errors.ProtocolError`` with the MQTT 5 reason code that is due, also
          from a 3.1.1 peer (who is not told it, but our log is). A packet of ours that cannot be written is a
          ``ValueError``.

Rules that need a second packet (an identifier in use, a second CONNECT, who may send what) belong to ``session``.

    reason      the reason codes          packettype  the 15 packet types      topicnames  names, filters, matching
    properties  the 27 MQTT 5 properties  packets     one class per type       fields      the types of single fields
    decode      bytes -> packet           encode      packet -> bytes
"""
