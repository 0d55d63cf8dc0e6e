"""The console port: health, status. In: HTTP on the console address. Out: JSON made from a snapshot. Changes nothing."""
