"""The committed schemas of what --json prints, and whether an answer is as one of them says."""

import json
import os

COMMITTED = os.path.join(os.path.dirname(__file__), "..", "..", "docs", "schema")


def committed(name):
    with open(os.path.join(COMMITTED, f"{name}.json"), encoding="utf-8") as file:
        return file.read()


def strict(schema):
    """The same schema, refusing fields it does not name: a test must see what we forgot."""
    if isinstance(schema, dict):
        closed = {key: strict(value) for key, value in schema.items()}
        if "properties" in closed and "additionalProperties" not in closed:
            closed["additionalProperties"] = False
        return closed
    return [strict(item) for item in schema] if isinstance(schema, list) else schema


def validate(answer, name):
    """By the schema of that name, which has to name every field."""
    import jsonschema  # not for every file of tests: it takes a tenth of a second
    jsonschema.validate(answer, strict(json.loads(committed(name))), cls=jsonschema.Draft202012Validator)
