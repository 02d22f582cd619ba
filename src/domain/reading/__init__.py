"""From foreign text and series to typed facts; knows no run, event or rule."""
