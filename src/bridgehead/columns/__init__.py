"""The one Arrow form of messages: what a batch is made of between the socket and the socket.

In: arrays scanned from the wire. Out: record batches of exactly the schemas below. Promised: every other package takes
column names and types from here and nowhere else.
"""
