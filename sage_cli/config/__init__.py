"""The configuration: from what is typed to one checked `SageConfig`.

`schema` puts the sections of `sage_cli.settings` together, refuses what contradicts, and lists
every setting by name. `load` merges presets, flags and `--set` into a configuration; `explain` says
what a setting means, and what is wrong with a configuration. `consent` keeps stored files from
running code and naming servers.
"""
