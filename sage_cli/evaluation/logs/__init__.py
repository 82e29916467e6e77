"""Logs of other programs: one file per program, with its name, its recogniser and its reader."""
