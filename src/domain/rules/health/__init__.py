"""H rules: detectors of problems with a run."""
