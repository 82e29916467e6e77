"""Policy and benchmark to samples, samples to grades, grades to counts."""
