"""NiceGUI: mounts the views, and asks again while somebody looks."""
