"""The HTTP port for metrics, health and readiness."""
