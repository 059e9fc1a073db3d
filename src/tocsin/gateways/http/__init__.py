"""The HTTP gateway: a table of operations, each a command or a question, over one identity and one error catalogue.

`app` wires the table; the OpenAPI document is made out of the same table, so it cannot say otherwise.
"""
