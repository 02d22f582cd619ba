"""Logs a training to W&B as well, with W&B's own client."""

import argparse
from typing import Any

import wandb


class WandbLog:
    """One start's log; every start of a training goes on under the same id.

    Args:
        settings: `wandb` as entity/project, `run_id`, `display_name` and `output_root`, below which
            the client keeps its data in `wandb/`. Whether it is online the client itself reads
            from WANDB_MODE, and where from WANDB_BASE_URL.
    """

    def __init__(self, settings: argparse.Namespace) -> None:
        """Start the client; it takes a second or two."""
        entity, _, project = settings.wandb.rpartition("/")
        settings.output_root.mkdir(parents=True, exist_ok=True)
        self._run: Any = wandb.init(
            entity=entity or None,
            project=project,
            id=settings.run_id,
            name=settings.display_name or settings.run_id,
            resume="allow",
            dir=str(settings.output_root),
            settings=wandb.Settings(console="off", x_disable_stats=True),
        )

    def log(self, step: int, **values: float) -> None:
        """Log one measurement of a step."""
        self._run.log({"global_step": step, **values}, step=step)

    def finish(self) -> None:
        """Say that the training is complete, and wait until all is written."""
        self._run.finish()
