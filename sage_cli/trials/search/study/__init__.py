"""The Optuna study: samplers, storage and its trials."""
