"""Keeping: the protocol, and the engines behind it."""
