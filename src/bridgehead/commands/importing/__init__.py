"""Configurations of other bridges as ours. In: a file of theirs. Out: our YAML, and a report of what it does not say.

Promised: nothing is left out in silence. What cannot be read is refused in one line; nothing is fetched from anywhere.
"""
