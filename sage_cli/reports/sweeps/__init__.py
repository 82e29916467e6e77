"""Documents of sweeps: tables, heat maps, surfaces, fronts, slices, importances."""
