"""Methods that change the advantages of a group, and nothing else."""
