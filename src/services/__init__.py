"""What watchkeeper does, behind ports; imports no adapter."""
