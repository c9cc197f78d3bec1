"""Writes divvy/messages.py, the types of the API's messages, from the OpenAPI document.

    divvy up ... && python3 generate_messages.py FILE     FILE: the answer of GET /v1/openapi.json

tests/test_openapi.py compares the committed file with the document of the daemon under test.
"""

import json
import keyword
import re
import sys
from pathlib import Path
from typing import Any, Dict, List

TARGET = Path(__file__).resolve().parent / "divvy" / "messages.py"
HEADER = '''"""The messages of the API as types. Generated from the OpenAPI document by generate_messages.py; do not edit.

Times are seconds since 1970, durations are seconds, and memory is in bytes (docs/api.md).
"""

from typing import Any, Dict, List, Literal, Optional, TypedDict

'''
SIMPLE = {"boolean": "bool", "number": "float", "string": "str", "integer": "int"}


def type_of(schema: Dict[str, Any]) -> str:
    if "$ref" in schema:
        return '"' + schema["$ref"].rsplit("/", 1)[1] + '"'
    if "anyOf" in schema:
        inner = [one for one in schema["anyOf"] if one.get("type") != "null"]
        return f"Optional[{type_of(inner[0])}]"
    kind = schema.get("type")
    if kind == "array":
        return f"List[{type_of(schema['items'])}]"
    if kind == "object":
        values = schema.get("additionalProperties")
        return f"Dict[str, {type_of(values) if values else 'Any'}]"
    return SIMPLE.get(str(kind), "Any")


def definition(name: str, schema: Dict[str, Any]) -> str:
    if "enum" in schema:
        line = f"{name} = Literal[" + ", ".join(f'"{word}"' for word in schema["enum"]) + "]"
        if len(line) > 120:
            line = f"{name} = Literal[\n    " + ",\n    ".join(f'"{word}"' for word in schema["enum"]) + ",\n]"
        return line + "\n"
    fields = {field: inner for field, inner in schema.get("properties", {}).items() if not inner.get("deprecated")}
    if any(keyword.iskeyword(field) for field in fields):
        pairs = "".join(f'        "{field}": {type_of(inner)},\n' for field, inner in fields.items())
        return f'{name} = TypedDict(\n    "{name}",\n    {{\n{pairs}    }},\n)\n'
    lines = [f"    {field}: {type_of(inner)}\n" for field, inner in fields.items()]
    return f"class {name}(TypedDict):\n" + ("".join(lines) or "    pass\n")


def generate(document: Dict[str, Any]) -> str:
    schemas = document["components"]["schemas"]
    names = sorted(schemas, key=lambda name: ("enum" not in schemas[name], name))  # Literals are aliases: first.
    parts: List[str] = [definition(name, schemas[name]) for name in names]
    text = HEADER
    for number, part in enumerate(parts):
        is_alias = "= Literal[" in part
        text += ("" if is_alias or number == 0 else "\n\n") + part
    unused = [name for name in ("Any", "Dict", "List", "Literal", "Optional") if not re.search(rf"\b{name}\b", text[len(HEADER) :])]
    for name in unused:
        text = text.replace(f"{name}, ", "", 1)
    return text


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        TARGET.write_text(generate(json.load(file)), encoding="utf-8")
