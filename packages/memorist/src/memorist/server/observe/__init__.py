"""What an operator sees of the server: logs, metrics, traces and health."""
