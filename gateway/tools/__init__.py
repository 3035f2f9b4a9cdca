"""The backend tools, one file each."""
