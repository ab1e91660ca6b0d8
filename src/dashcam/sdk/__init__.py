"""What an agent embeds. Needs only msgspec; fails open; costs microseconds."""
