"""The link of an agent to its hub: addresses, transports, calls that wait for their answer, and reconnection."""
