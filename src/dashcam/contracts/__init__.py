"""Frozen shapes with their rules; no I/O."""
