"""The log and the checkpoint of a region, on a disk port that is real or simulated (`disk.py`)."""
