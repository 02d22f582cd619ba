"""What broke: signatures, wording, and what is known around a text."""
