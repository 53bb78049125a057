"""Settings: the configuration, the table of all settings, and where values come from."""
