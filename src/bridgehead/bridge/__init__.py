"""The bridge: one connection to a remote broker, and the routes that use it.

In: rows of push outboxes, and what the remote broker sends on pull routes. Out: PUBLISH to the remote with the promise
their QoS makes, and rows of the journal. Promised: one layer resends; an inbound acknowledgement leaves when the message is
safe; order is kept per route. Refused: nothing silently; what is dropped has a reason and a counter.
"""
