"""The sections of a suite's report, one file each: from results to a document."""
