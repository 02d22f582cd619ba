"""What subscribers see of an event."""
