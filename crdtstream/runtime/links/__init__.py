"""Links to other regions: gRPC streams, handshakes, envelopes, and when messages are pulled."""
