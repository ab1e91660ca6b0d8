"""What the command line shows, as JSON: one module a noun. Every list answers `{"items": […], "next": cursor or null}`."""
