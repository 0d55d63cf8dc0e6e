"""Whole scenarios: real nodes, a real remote broker, real clients."""
