"""Wire or file into contracts: pure functions that can be fuzzed."""
