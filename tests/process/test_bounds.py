"""What /openapi.json says of numbers, texts and lists is what the daemon takes: one step beyond each bound
of each body and of each parameter is refused by name."""

import re

import pytest

GONE = re.compile(r"\{[a-z]+\}")


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
    told = answer.json()
    return told["error"]["message"] if "error" in told else told["detail"]


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
                answer = yard.get(GONE.sub("1", path), method=method, unix=True,
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
                answer = yard.get(f"{GONE.sub('1', path)}?{parameter['name']}={value}{others}", method=method,
                                  unix=True)
                assert answer.status == 400, (method, path, parameter["name"], value, answer.text)
                assert parameter["name"] in message(answer), (path, answer.text)
                asked += 1
    assert asked > 20


def test_a_token_lasts_as_long_as_is_described(described):
    yard, _ = described
    for lasts in (9.2e9, 9.3e9, 1e18, 1e308, 0, -5, 0.99):
        answer = yard.get("/api/gpu/tokens", method="POST", unix=True,
                          body={"name": "t", "scope": "read", "lasts_s": lasts})
        assert answer.status == 400, (lasts, answer.text)
        assert "body: /lasts_s: must be from 1 to 315360000" in message(answer)
    assert yard.get("/api/gpu/tokens", unix=True).json()["tokens"] == []
