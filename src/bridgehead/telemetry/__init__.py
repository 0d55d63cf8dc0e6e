"""What a node shows of itself: one snapshot, from which the API, the demo's table and readiness are made.

In: views on the living parts. Out: plain values. Promised: nothing here changes anything.
"""
