"""Policy and benchmark to samples, samples to verdicts, verdicts to counts."""
