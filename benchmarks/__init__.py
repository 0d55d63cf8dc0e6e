"""What the bridge costs and carries, measured against a peer in the same run.

In: a generator process that publishes; in the middle: a system under test (our node through Spark, our node inline,
Mosquitto with a bridge, or nothing at all); out: a counting process that plays the remote broker.  Generator and counter
speak MQTT by their own hand (nothing here imports `bridgehead`), so the figures are also an independent check of the wire.

    python -m benchmarks --help
"""
