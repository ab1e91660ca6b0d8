"""The embedded store: one SQLite file that any tool opens."""
