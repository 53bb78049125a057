"""One region: the node, the requests that it runs in turns, and the other regions as its commands show them."""
