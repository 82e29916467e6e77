"""A declared study: methods, seeds, a protocol; from them a plan of tasks and a report."""
