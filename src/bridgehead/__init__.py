"""Bridgehead: an MQTT edge node with a store-and-forward bridge whose data pipeline is Spark."""

__version__ = "0.1.0"
