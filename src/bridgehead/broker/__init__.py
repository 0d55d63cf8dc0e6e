"""The local broker: listeners, connections, sessions, the topic tree, retained messages, the distributor.

In: MQTT clients. Out: messages to local subscribers, and, for each accepted publish that a route wants, rows in the journal.
Promised: an acknowledgement leaves only when the message is where its promise says, in PUBLISH order; bad input closes the
connection it came on and harms no other. Bounded: every queue, with a counted reason for what it drops.
"""
