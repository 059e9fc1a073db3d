"""Programs that agents run: the MCP server over stdio with its channel, and the worker for scripts."""
