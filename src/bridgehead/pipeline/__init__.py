"""Between journal and outbox: what turns journal rows into outbox rows, exactly once.

In: offset ranges of the journal. Out: outbox rows of each route, committed with the range they came from. The same
rules run in Spark's workers (engine spark) or in the node (engine inline). Refused: a commit that does not start where
the last one ended, a part that is missing or not what was announced, anything from a driver of an earlier epoch.
"""
