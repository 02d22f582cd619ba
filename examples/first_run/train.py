"""A training with all that watchkeeper needs to see: metrics, complete checkpoints, a resume.

It uses the standard library alone. Replace the loss by a model, and keep the rest.
"""

import argparse
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path


def main() -> None:
    """Train to the final step, from the beginning or from a checkpoint."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run-id", required=True)
    parser.add_argument("--output-root", type=Path, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--step-seconds", type=float, default=0.3, help="how slow a step is")
    parser.add_argument("--initialize-from", type=Path, help="a checkpoint to resume from")
    options = parser.parse_args()
    options.output_root.mkdir(parents=True, exist_ok=True)
    first = 0
    if options.initialize_from:
        first = json.loads((options.initialize_from / "metadata.json").read_text())["step"]
        print(f"Resuming training from step {first}", flush=True)
    else:
        print("Starting from scratch", flush=True)
    metrics = options.output_root / "metrics.jsonl"
    write(metrics, tracker={"id": options.run_id, "display_name": "First run", "state": "running"})
    for step in range(first + 1, options.steps + 1):
        time.sleep(options.step_seconds)
        loss = 2 + 8 / step
        write(metrics, step=step, time=datetime.now(UTC).isoformat(), loss=loss)
        print(f"step {step}/{options.steps} loss {loss:.3f}", flush=True)
        if step % 20 == 0:
            save(options.output_root / "checkpoints" / f"step-{step}", step, step < options.steps)
    write(metrics, tracker={"id": options.run_id, "display_name": "First run", "state": "finished"})


def write(metrics: Path, **row: object) -> None:
    """Append a row to the metrics file."""
    with metrics.open("a") as file:
        file.write(json.dumps(row) + "\n")


def save(folder: Path, step: int, temporary: bool) -> None:
    """Write a checkpoint. `metadata.json` comes last and in one move: it says that all is there."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "weights.json").write_text(json.dumps({"step": step}))
    part = folder / "metadata.part"
    part.write_text(json.dumps({"step": step, "is_temporary": temporary}))
    os.replace(part, folder / "metadata.json")


if __name__ == "__main__":
    main()
