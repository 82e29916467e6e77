"""Trials, which are trained and measured, their tasks, and the queue of tasks."""
