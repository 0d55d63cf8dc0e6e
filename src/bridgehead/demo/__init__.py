"""The demo: two nodes, a bridge between them, a small simulated factory, and a live table of what crosses."""
