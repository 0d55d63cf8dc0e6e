"""``python -m bridgehead``: the command, wherever the package is found."""

from bridgehead.cli import main

main()
