"""The MCP gateway: operations as tools and resources that a model can use.

`tools` derives the tools from the table of operations; `composites` has the few that are more than one operation. A
tool performs operations through a `ToolCall`: inside the hub that is `hub_call`, mounted by `mount`; in `tocsin mcp` it
is HTTP. The caller is always the owner of the token; no tool takes it as an argument.
"""
