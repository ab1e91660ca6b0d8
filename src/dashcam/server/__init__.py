"""The server: real clients in, answers out."""
