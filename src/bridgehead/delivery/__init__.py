"""From a queue to a peer: what the promise of QoS 2 needs between them, towards a remote and towards a client alike.

Packet ids that survive the node, and frames that leave when the disk knows of them.
"""
