"""Settings: the machinery of sections, presets and plug-ins; no section knows another room."""
