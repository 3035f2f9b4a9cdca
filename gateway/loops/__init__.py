"""The agent types, one file each. An agent type turns an input into events."""
