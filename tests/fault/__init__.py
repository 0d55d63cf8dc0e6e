"""Random faults from a seed, judged by an oracle: a few fixed seeds here, many with ``make soak``."""
