"""Table definitions: columns and types, the `Table` declaration, and checks that a transform must pass."""
