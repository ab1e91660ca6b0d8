"""OpenTelemetry in: requests into spans and log records, spans into what an agent did. Pure."""
