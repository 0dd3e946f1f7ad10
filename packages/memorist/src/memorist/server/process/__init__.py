"""The server process: start, workers, lifespan and background jobs."""
