"""What a training log says about progress and about the start of training."""
