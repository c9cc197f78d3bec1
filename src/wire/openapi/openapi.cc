#include "wire/openapi/openapi.h"

#include <cstdint>
#include <set>

#include "base/text.h"
#include "wire/json/json.h"

namespace divvy {

/// Writes the document once.
class OpenApiText {
 public:
  explicit OpenApiText(const OpenApi& api) : api_(api), writer_(text_) {}

  std::string Write();

 private:
  void Schema(const JsonType& type, std::string_view meaning = {});
  void SchemaBody(const JsonType& type, std::string_view meaning);
  void Reference(const JsonType& type);
  void FormerName(const JsonField& field);
  void Definition(const JsonType& type);
  void Operation(const OpenApiRoute& route);
  void Parameters(const OpenApiRoute& route);
  void Parameter(std::string_view name, std::string_view in, const JsonType* type);
  void Content(std::string_view content_type, const JsonType* type);
  void Answers(const OpenApiRoute& route);
  void Text(std::string_view name, std::string_view value) {
    writer_.Key(name);
    writer_.String(value);
  }

  const OpenApi& api_;
  std::string text_;
  JsonWriter writer_;
};

namespace {

bool HasBody(std::string_view method) { return method == "POST" || method == "PUT" || method == "PATCH"; }

/// Whether `c` is valid in the name of a schema.
bool IsPlain(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

bool IsNamed(const JsonType& type) { return type.kind == JsonKind::kObject || type.kind == JsonKind::kEnum; }

/// Returns the names of the parameters in a path: {"id"} for "/v1/jobs/{id}/wait".
std::vector<std::string_view> PathParameters(std::string_view path) {
  std::vector<std::string_view> names;
  for (std::size_t open = path.find('{'); open != std::string_view::npos; open = path.find('{', open + 1)) {
    std::size_t close = path.find('}', open);
    if (close == std::string_view::npos) break;
    names.push_back(path.substr(open + 1, close - open - 1));
  }
  return names;
}

/// POST /v1/jobs/{id}/cancel -> postJobsByIdCancel: unique like the route, and a valid name in every language.
std::string OperationId(const OpenApiRoute& route) {
  std::string id = ToLower(route.method);
  for (std::string_view part : Split(route.path, '/')) {
    if (part.empty() || part == "v1") continue;
    if (part.front() == '{') id += "By";
    bool starts_word = true;
    for (char c : part) {
      bool is_letter = IsPlain(c) && c != '_';
      if (is_letter) id.push_back(starts_word && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c);
      starts_word = !is_letter;
    }
  }
  return id;
}

}  // namespace

void OpenApiText::Reference(const JsonType& type) {
  writer_.Key("$ref");
  writer_.String("#/components/schemas/" + api_.names_.at(&type));
}

void OpenApiText::Schema(const JsonType& type, std::string_view meaning) {
  writer_.BeginObject();
  SchemaBody(type, meaning);
  writer_.EndObject();
}

void OpenApiText::SchemaBody(const JsonType& type, std::string_view meaning) {
  if (!meaning.empty()) Text("description", meaning);
  switch (type.kind) {
    case JsonKind::kBool:
      return Text("type", "boolean");
    case JsonKind::kDouble:
      return Text("type", "number");
    case JsonKind::kString:
      return Text("type", "string");
    case JsonKind::kSigned:
      Text("type", "integer");
      return Text("format", type.size == 8 ? "int64" : "int32");
    case JsonKind::kUnsigned:
      Text("type", "integer");
      if (type.size == 8) Text("format", "int64");
      return writer_.Member("minimum", 0);
    case JsonKind::kOptional:
      writer_.Key("anyOf");
      writer_.BeginArray();
      Schema(*type.inner);
      writer_.BeginObject();
      Text("type", "null");
      writer_.EndObject();
      return writer_.EndArray();
    case JsonKind::kArray:
      Text("type", "array");
      writer_.Key("items");
      return Schema(*type.inner);
    case JsonKind::kMap:
      Text("type", "object");
      writer_.Key("additionalProperties");
      return Schema(*type.inner);
    case JsonKind::kForm:
      return SchemaBody(*type.inner, type.name);
    case JsonKind::kEnum:
    case JsonKind::kObject:
      return Reference(type);
  }
}

/// Describes a renamed field a second time, under its name in the last release, for clients of that release.
void OpenApiText::FormerName(const JsonField& field) {
  writer_.Key(field.former);
  writer_.BeginObject();
  SchemaBody(*field.type, "former name of " + std::string(field.name));
  writer_.Member("deprecated", true);
  writer_.EndObject();
}

void OpenApiText::Definition(const JsonType& type) {
  writer_.BeginObject();
  if (type.kind == JsonKind::kEnum) {
    Text("type", "string");
    writer_.Key("enum");
    writer_.BeginArray();
    for (const JsonWord& word : type.words) writer_.String(word.word);
    writer_.EndArray();
  } else {
    Text("type", "object");
    writer_.Key("properties");
    writer_.BeginObject();
    for (const JsonField& field : type.fields) {
      writer_.Key(field.name);
      Schema(*field.type);
      if (!field.former.empty()) FormerName(field);
    }
    writer_.EndObject();
  }
  writer_.EndObject();
}

void OpenApiText::Parameter(std::string_view name, std::string_view in, const JsonType* type) {
  writer_.BeginObject();
  Text("name", name);
  Text("in", in);
  writer_.Member("required", in == "path");
  writer_.Key("schema");
  if (type != nullptr) {
    Schema(*type);
  } else {
    Schema(kJsonType<std::string>);
  }
  writer_.EndObject();
}

void OpenApiText::Parameters(const OpenApiRoute& route) {
  std::vector<std::string_view> in_path = PathParameters(route.path);
  bool has_query = !HasBody(route.method) && route.request != nullptr && !route.request->fields.empty();
  if (in_path.empty() && !has_query) return;
  writer_.Key("parameters");
  writer_.BeginArray();
  for (std::string_view name : in_path) Parameter(name, "path", nullptr);
  if (has_query) {
    for (const JsonField& field : route.request->fields) Parameter(field.name, "query", field.type);
  }
  writer_.EndArray();
}

void OpenApiText::Content(std::string_view content_type, const JsonType* type) {
  writer_.Key("content");
  writer_.BeginObject();
  writer_.Key(content_type);
  writer_.BeginObject();
  writer_.Key("schema");
  if (type != nullptr) {
    Schema(*type);
  } else {
    Schema(kJsonType<std::string>);
  }
  writer_.EndObject();
  writer_.EndObject();
}

void OpenApiText::Answers(const OpenApiRoute& route) {
  writer_.Key("responses");
  writer_.BeginObject();
  writer_.Key(std::to_string(route.status));
  writer_.BeginObject();
  Text("description", "Done.");
  if (route.response != nullptr || route.response_content_type != "application/json") {
    Content(route.response_content_type, route.response);
  }
  writer_.EndObject();
  if (api_.error_type_ != nullptr) {
    writer_.Key("default");
    writer_.BeginObject();
    Text("description", "What was wrong, and what to do about it.");
    Content("application/json", api_.error_type_);
    writer_.EndObject();
  }
  writer_.EndObject();
}

void OpenApiText::Operation(const OpenApiRoute& route) {
  writer_.Key(ToLower(route.method));
  writer_.BeginObject();
  Text("operationId", OperationId(route));
  Text("summary", route.summary);
  Parameters(route);
  if (HasBody(route.method) && route.request != nullptr) {
    writer_.Key("requestBody");
    writer_.BeginObject();
    writer_.Member("required", true);
    Content("application/json", route.request);
    writer_.EndObject();
  }
  Answers(route);
  writer_.EndObject();
}

std::string OpenApiText::Write() {
  writer_.BeginObject();
  Text("openapi", "3.1.0");
  writer_.Key("info");
  writer_.BeginObject();
  Text("title", api_.title_);
  Text("version", api_.version_);
  writer_.EndObject();
  writer_.Key("paths");
  writer_.BeginObject();
  std::set<std::string_view> done;
  for (const OpenApiRoute& first : api_.routes_) {
    if (!done.insert(first.path).second) continue;
    writer_.Key(first.path);
    writer_.BeginObject();
    for (const OpenApiRoute& route : api_.routes_) {
      if (route.path == first.path) Operation(route);
    }
    writer_.EndObject();
  }
  writer_.EndObject();
  writer_.Key("components");
  writer_.BeginObject();
  writer_.Key("schemas");
  writer_.BeginObject();
  for (const auto& [name, type] : api_.schemas_) {
    writer_.Key(name);
    Definition(*type);
  }
  writer_.EndObject();
  writer_.EndObject();
  writer_.EndObject();
  return std::move(text_);
}

void OpenApi::SetErrorType(const JsonType& type) {
  AddSchema(type);
  error_type_ = &type;
}

void OpenApi::AddRoute(OpenApiRoute route) {
  if (route.request != nullptr) {
    // Query parameters are described one by one, so only their types need schemas.
    if (HasBody(route.method) || route.request->kind != JsonKind::kObject) AddSchema(*route.request);
    for (const JsonField& field : route.request->fields) AddSchema(*field.type);
  }
  if (route.response != nullptr) AddSchema(*route.response);
  routes_.push_back(std::move(route));
}

void OpenApi::AddSchema(const JsonType& type) {
  if (IsNamed(type)) {
    if (names_.contains(&type)) return;
    std::string name;
    for (char c : type.name) name.push_back(IsPlain(c) ? c : '_');
    std::string unique = name;
    for (int i = 2; schemas_.contains(unique); ++i) unique = name + std::to_string(i);
    schemas_[unique] = &type;
    names_[&type] = unique;
  }
  if (type.inner != nullptr) AddSchema(*type.inner);
  for (const JsonField& field : type.fields) AddSchema(*field.type);
}

std::string OpenApi::Text() const { return OpenApiText(*this).Write(); }

}  // namespace divvy
