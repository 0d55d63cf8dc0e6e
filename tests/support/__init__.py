"""What scenario tests stand on: real processes, real clients, raw sockets, and waiting for a condition (never for a while)."""
