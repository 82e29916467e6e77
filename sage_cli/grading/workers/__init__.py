"""Processes that judge untrusted answers and can be killed.

`worker.py` is what runs in one, `process.py` how its parent sees it, `pool.py` hands out the work.
"""
