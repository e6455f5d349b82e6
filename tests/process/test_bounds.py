"""The daemon enforces the bounds that /openapi.json describes: a value one step beyond each bound of a number,
text or list, in a body or a parameter, is refused and the field named."""

import re

import pytest

PLACEHOLDERS = re.compile(r"\{[a-z]+\}")


def types_of(schema):
    return schema["type"] if isinstance(schema["type"], list) else [schema["type"]]


def beyond(schema):
    """Values just beyond the bounds of a schema."""
    types = types_of(schema)
    if "array" in types:
        least, most = schema.get("minItems", 0), schema["maxItems"]
        yield from ([0] * count for count in (least - 1, most + 1) if count >= 0)
        yield from ([value] for value in beyond(schema["items"]))
    elif "string" in types:
        if schema.get("minLength", 0) > 0:
            yield "x" * (schema["minLength"] - 1)
        if "maxLength" in schema:
            yield "x" * (schema["maxLength"] + 1)
    elif "integer" in types:
        yield from (schema["minimum"] - 1, schema["maximum"] + 1)
    elif "number" in types:
        yield from (schema["minimum"] - 1e-4, schema["maximum"] + 1, 1e308, -1e308)


@pytest.fixture(scope="module")
def described(shared):
    yard = shared("--simulate", "2")
    return yard, yard.get("/openapi.json").json()


def operations(document):
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def message(answer):
    refusal = answer.json()
    return refusal["error"]["message"] if "error" in refusal else refusal["detail"]


def test_a_body_beyond_its_bounds_is_refused(described):
    yard, document = described
    asked = 0
    for path, method, operation in operations(document):
        if "requestBody" not in operation:
            continue
        media = operation["requestBody"]["content"]["application/json"]
        schema = media["schema"]
        if "$ref" in schema:
            schema = document["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        for name, field in schema["properties"].items():
            for value in beyond(field):
                answer = yard.get(PLACEHOLDERS.sub("1", path), method=method, unix=True,
                                  body=media["example"] | {name: value})
                assert answer.status == 400, (method, path, name, value, answer.text)
                assert message(answer).startswith(f"body: /{name}"), (path, answer.text)
                asked += 1
    assert asked > 80


def test_a_parameter_beyond_its_bounds_is_refused(described):
    yard, document = described
    asked = 0
    for path, method, operation in operations(document):
        for parameter in operation.get("parameters", []):
            if parameter["in"] != "query":
                continue
            for value in beyond(parameter["schema"]):
                others = "".join(f"&{one['name']}={one['example']}" for one in operation["parameters"]
                                 if one["in"] == "query" and one["required"] and one is not parameter)
                answer = yard.get(f"{PLACEHOLDERS.sub('1', path)}?{parameter['name']}={value}{others}", method=method,
                                  unix=True)
                assert answer.status == 400, (method, path, parameter["name"], value, answer.text)
                assert parameter["name"] in message(answer), (path, answer.text)
                asked += 1
    assert asked > 20
