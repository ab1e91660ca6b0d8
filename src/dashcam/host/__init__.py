"""Running: what asks models and calls tools on somebody's behalf. Needs Pydantic AI."""
