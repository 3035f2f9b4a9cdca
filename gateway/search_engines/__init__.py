"""The search engines that the search tools use, one file each."""
