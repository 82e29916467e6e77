"""Search space, study and trial life-cycle."""
