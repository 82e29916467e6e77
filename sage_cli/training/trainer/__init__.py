"""The trainers on TRL: anchor, advantages, records, optimisers."""
