"""The detectors (H): from one check to the findings that hold at it."""
