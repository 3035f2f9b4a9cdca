"""What the search tools search in, one file each."""
