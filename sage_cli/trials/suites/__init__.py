"""A declared study: methods, seeds and a protocol; its trials, their tasks and a report."""
