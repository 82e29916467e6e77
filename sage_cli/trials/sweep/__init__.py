"""Search space, study, and the driver that trains its trials."""
