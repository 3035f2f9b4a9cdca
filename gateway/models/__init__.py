"""The model providers, one file each."""
