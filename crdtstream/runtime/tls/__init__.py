"""Certificates, credentials, and ports that speak TLS."""
