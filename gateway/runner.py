"""Opens parts, drives the loop, keeps the thread; being written."""


class Runner:
    """Placeholder until the runner lands."""
