"""Commands that look at a node or change something in it: over its API while it runs, in its dataDir while it does not."""
