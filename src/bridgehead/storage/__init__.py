"""Tier 1: where messages are safe.

The journal (front half) is a set of append-only logs read by offset; the outbox (back half) is one queue per route with
markers and acknowledgements. Both keep their batches in an engine: memory here, a file-native one behind the same
interface. In: batches of accepted messages. Out: the same, in order, until somebody says they are done. Promised: offsets
never repeat; rows, consumed offset and counters change in one write. Refused: what would break a bound, with a counted reason.
"""
