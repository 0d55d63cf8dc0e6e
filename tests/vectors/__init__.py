"""Tables of cases that several tests share; ``tests/`` is their source root (``from vectors.packets import CASES``)."""
