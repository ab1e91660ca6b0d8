"""A session as a file that others read: whole (jsonl, sqlite), or in the words of another tool."""
