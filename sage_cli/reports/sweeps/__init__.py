"""Documents of sweeps: tables, heat maps, and Optuna's pictures."""
