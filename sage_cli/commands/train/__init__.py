"""Train policies, and show what guides and equations do."""
