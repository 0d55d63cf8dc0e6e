"""The archive of a route: a directory of Parquet files that holds each of its rows once.

In come the rows behind the transform, from the evaluation that also feeds the outbox; out come files that any reader of
directories understands: ``path/date=2026-11-16/part-....parquet``.

One fact decides what belongs to the archive: the node's commit. It moves the consumed offset and names the files of the
batch in one write. Before it a file is pending, in ``path/_pending``, where no reader looks; behind it the file is
renamed to its place. Whoever dies in between leaves a file that the commit names, and the next driver renames it; a
pending file that no commit names is nobody's and is removed. So it does not matter how a range is cut again, how many
attempts a task took, or which of them was slow.

- ``spec``: what an archive is, and what a commit says of it
- ``layout``: names; ``partitions``: which directory a row belongs to
- ``writer``: a task's rows become pending files
- ``desk``: the driver's side: recover, publish, discard
- ``compaction``: many small files become few, in one step for readers
- ``files``: what the above do to the disk, one step each
"""
