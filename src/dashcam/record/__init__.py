"""The only writers: from journals and wires into the store."""
