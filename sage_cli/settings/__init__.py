"""Settings: sections one by one, presets, plug-ins. `sage_cli.config` puts them together."""
