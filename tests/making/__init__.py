"""What unit and property tests make their parts from: rows, and peers that speak MQTT by the script of a test."""
