"""Rows into what a person asks. Each view has one `load` that asks the store; the rest is pure."""
