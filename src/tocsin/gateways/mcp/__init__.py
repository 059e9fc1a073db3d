"""The MCP gateway: the bus as tools and resources that a model can use.

The tools are written once, over a `Visit`: what one call may ask of the bus. Inside the hub a visit is the HTTP
gateway's own table of operations (`inside`, mounted by `mount`); in `tocsin mcp` it is the same table asked over HTTP.
Who calls is the visit's to know: no tool takes it as an argument.
"""
