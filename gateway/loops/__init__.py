"""The agent types: how an input becomes events, one file each."""
