"""The hub: projects being run. It owns threads, clocks and sockets; what happens is the core's to decide."""
