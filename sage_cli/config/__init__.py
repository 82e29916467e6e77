"""The configuration: from what is typed to one checked `SageConfig`.

`schema` puts the sections of `sage_cli.settings` together and refuses what contradicts. `catalogue`
lists every setting with its meaning. `layers` merges presets, flags and `--set`. `load` makes a
configuration of them, and `mistakes` says what is wrong with one. `consent` keeps stored files from
running code and naming servers. `describe` puts a configuration into words.
"""
