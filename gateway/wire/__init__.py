"""Formats that several parts share, and formats without a maintained package. Pure."""
