"""What can be asked, who may ask it, and why it is refused."""
