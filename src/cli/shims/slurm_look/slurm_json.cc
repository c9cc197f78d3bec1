#include "cli/shims/slurm_look/slurm_json.h"

#include <cstdio>

#include "base/text.h"
#include "cli/client/command.h"

namespace divvy::cli::slurm {

void AddMeta(JsonWriter& json, std::string_view command) {
  JsonFields fields(json);
  json.Key("meta");
  json.BeginObject();
  json.Key("plugin");
  json.BeginObject();
  fields.Text("type", "openapi/v0.0.38");
  fields.Text("name", "divvy, as " + std::string(command));
  json.EndObject();
  json.Key("Slurm");
  json.BeginObject();
  json.Key("version");
  json.BeginObject();
  fields.Number("major", 22);
  fields.Number("minor", 5);
  fields.Number("micro", 0);
  json.EndObject();
  fields.Text("release", "22.05");
  json.EndObject();
  json.EndObject();
  json.Key("errors");
  json.BeginArray();
  json.EndArray();
}

namespace {

constexpr std::string_view kParser = "v0.0.38";

/// True for text that YAML would take for another type or for its own syntax.
bool NeedsQuotes(std::string_view text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_/.-";
  if (text.empty() || text.find_first_not_of(kPlain) != std::string_view::npos || text.front() == '-') return true;
  const std::string lower = ToLower(text);
  for (const std::string_view word : {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}) {
    if (lower == word) return true;
  }
  // Numbers, times and dates.
  return (text.front() >= '0' && text.front() <= '9') || text.front() == '.';
}

std::string Scalar(JsonValue value) {
  if (const auto text = value.AsString()) return NeedsQuotes(*text) ? ToJson(std::string(*text)) : std::string(*text);
  if (const auto flag = value.AsBool()) return *flag ? "true" : "false";
  if (const auto number = value.AsInt()) return std::to_string(*number);
  if (const auto number = value.AsNumber()) return ToJson(*number);
  return value.is_array() ? "[]" : value.is_object() ? "{}" : "null";
}

/// Appends `value` after "KEY:" or "-", with nested values on their own lines.
void AddYaml(JsonValue value, std::size_t indent, bool is_item, std::string& out) {
  if (value.size() == 0) {
    out += " " + Scalar(value) + "\n";
    return;
  }
  bool is_first = true;
  if (!is_item) out += "\n";
  for (const JsonValue one : value) {
    // The first field of an item is on the item's own line.
    out += is_item && is_first ? " " : std::string(indent, ' ');
    is_first = false;
    if (value.is_array()) out += "-";
    else out += std::string(NeedsQuotes(one.key()) ? ToJson(std::string(one.key())) : one.key()) + ":";
    // A list is indented like its key.
    AddYaml(one, value.is_object() && one.is_array() ? indent : indent + 2, value.is_array(), out);
  }
}

}  // namespace

std::string YamlOf(const std::string& json) {
  const auto document = JsonDocument::Parse(json);
  if (!document) return json;
  std::string out = "%YAML 1.1\n---";
  AddYaml(document->root(), 0, false, out);
  return out + "...\n";
}

void PrintAnswer(const std::string& json, const AnswerForm& form) {
  std::fputs((form.is_yaml ? YamlOf(json) : json).c_str(), stdout);
}

int PrintParsers() {
  return std::printf("Possible data_parser plugins:\ndata_parser/%s\n", std::string(kParser).c_str()) < 0 ? 1 : 0;
}

void AddAnswerForms(std::vector<dialect::Option>& options, AnswerForm& form) {
  const auto add = [&](std::string_view name, std::string_view help, bool& flag) {
    options.push_back({.name = name,
                       .takes = dialect::Takes::kOptionalValue,
                       .value_name = "v0.0.38|list",
                       .help = help,
                       .apply = [&form, &flag, name](std::string_view value) -> Status {
                         flag = true;
                         const std::string_view parser = value.substr(0, value.find('+'));
                         if (parser == "list") form.lists_parsers = true;
                         else if (!parser.empty() && parser != kParser)
                           Note("--" + std::string(name) + "=" + std::string(value) + ": the fields are those of " +
                                std::string(kParser) + ", plain numbers and words");
                         return {};
                       },
                       .aliases = {}});
  };
  add("json", "JSON", form.is_json);
  add("yaml", "YAML", form.is_yaml);
}

std::string RecordsJson(std::string_view command, std::string_view key, const std::vector<Record>& records) {
  std::string out;
  JsonWriter json(out);
  json.BeginObject();
  AddMeta(json, command);
  json.Key(key);
  json.BeginArray();
  for (const Record& record : records) {
    json.BeginObject();
    for (const auto& [name, text] : record) {
      json.Key(name);
      const std::string_view value = Trim(text);  // In a table, leading blanks show the tree.
      const auto number = ParseInteger(value);
      if (number && std::to_string(*number) == value) json.Int(*number);
      else json.String(value);
    }
    json.EndObject();
  }
  json.EndArray();
  json.EndObject();
  return out + "\n";
}

}  // namespace divvy::cli::slurm
