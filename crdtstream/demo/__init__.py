"""`crdtstream demo`: regions as processes, stories that are played on them, and what they show."""
