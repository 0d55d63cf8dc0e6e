"""The parts of a running node that its settings decide, and how they change while it runs.

In:       settings, at the start and whenever they change.
Out:      routes (doors, outboxes, rules), engines (inline, Spark), bridges (one uplink each).
Promised: what a change does not touch goes on as if nothing had happened; no queue goes unless somebody asks for that.
Refused:  nothing here: settings are checked before they come.
"""
