"""Documents of results: reports of pass@k, comparisons, power, evaluations, and their pages."""
