"""Settings that the published runs on images and on music share."""

from __future__ import annotations

from tauleap.training import Settings


def paper_settings(*, batch_size: int, steps: int, samples: int) -> Settings:
    """Return the settings of Appendix H: Adam with 2e-4 after 5000 steps of warm-up, and an average of the weights.

    Args:
        batch_size: Rows per step.
        steps: Number of steps.
        samples: Number of samples that are drawn every 20,000 steps.
    """
    return Settings(
        batch_size=batch_size,
        lr=2e-4,
        warmup=5000,
        ema=0.9999,
        clip=1.0,
        steps=steps,
        checkpoint_every=5000,
        log_every=500,
        validate_every=20_000,
        validation_rows=256,
        sample_every=20_000,
        samples=samples,
    )
