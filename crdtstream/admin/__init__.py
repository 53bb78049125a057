"""Admin commands for one or all regions, side by side: a client of the Redis ports."""
