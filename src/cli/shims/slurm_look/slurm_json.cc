#include "cli/shims/slurm_look/slurm_json.h"

#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/command.h"
#include "cli/shims/slurm_look/slurm_view.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {

namespace {

constexpr std::string_view kOlder = "v0.0.38", kNewer = "v0.0.40";

}  // namespace

void JsonFields::SetNumber(std::string_view key, std::int64_t value, bool is_set, bool is_infinite) {
  if (schema_ == JsonSchema::k38) return Number(key, value);
  json_.Key(key);
  json_.BeginObject();
  Bool("set", is_set);
  Bool("infinite", is_infinite);
  Number("number", value);
  json_.EndObject();
}

void JsonFields::SetNumber(std::string_view key, std::optional<std::int64_t> value) {
  SetNumber(key, value.value_or(0), value.has_value(), false);
}

void JsonFields::Limit(std::string_view key, std::int64_t value) { SetNumber(key, value, value != 0, value == 0); }

void JsonFields::Words(std::string_view key, std::string_view value) {
  if (schema_ == JsonSchema::k38) return Text(key, value);
  json_.Key(key);
  json_.BeginArray();
  json_.String(value);
  json_.EndArray();
}

void AddExit(std::string_view key, const wire::JobView& job, JsonSchema schema, JsonWriter& json) {
  JsonFields out(json, schema);
  const std::int64_t signal = job.signal.value_or(0);
  json.Key(key);
  json.BeginObject();
  out.Words("status", !IsFinal(job)                    ? "PENDING"
                      : signal != 0                    ? "SIGNALED"
                      : job.exit_code.value_or(0) == 0 ? "SUCCESS"
                                                       : "ERROR");
  out.SetNumber("return_code", signal != 0 ? 0 : job.exit_code.value_or(0));
  if (signal != 0 || schema == JsonSchema::k40) {
    json.Key("signal");
    json.BeginObject();
    if (schema == JsonSchema::k38) out.Number("signal_id", signal);
    else out.SetNumber("id", signal != 0 ? std::optional(signal) : std::nullopt);
    if (schema == JsonSchema::k40) out.Text("name", "");
    json.EndObject();
  }
  json.EndObject();
}

void AddMeta(JsonWriter& json, std::string_view command, JsonSchema schema) {
  JsonFields fields(json);
  const bool is_newer = schema == JsonSchema::k40;
  json.Key("meta");
  json.BeginObject();
  json.Key("plugin");
  json.BeginObject();
  fields.Text("type", "openapi/" + std::string(is_newer ? kNewer : kOlder));
  fields.Text("name", "divvy, as " + std::string(command));
  if (is_newer) fields.Text("data_parser", "data_parser/" + std::string(kNewer));
  json.EndObject();
  json.Key(is_newer ? "slurm" : "Slurm");
  json.BeginObject();
  json.Key("version");
  json.BeginObject();
  if (is_newer) {
    fields.Text("major", "23");
    fields.Text("minor", "11");
    fields.Text("micro", "0");
  } else {
    fields.Number("major", 22);
    fields.Number("minor", 5);
    fields.Number("micro", 0);
  }
  json.EndObject();
  fields.Text("release", is_newer ? "23.11" : "22.05");
  if (is_newer) fields.Text("cluster", dialect::kSlurmCluster);
  json.EndObject();
  json.EndObject();
  json.Key("errors");
  json.BeginArray();
  json.EndArray();
}

namespace {

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
  return std::printf("Possible data_parser plugins:\ndata_parser/%s\ndata_parser/%s\n", std::string(kNewer).c_str(),
                     std::string(kOlder).c_str()) < 0
             ? 1
             : 0;
}

void AddAnswerForms(std::vector<dialect::Option>& options, AnswerForm& form, bool has_newer) {
  const auto add = [&](std::string_view name, std::string_view help, bool& flag) {
    options.push_back({.name = name,
                       .takes = dialect::Takes::kOptionalValue,
                       .value_name = "SCHEMA|list",
                       .help = help,
                       .apply = [&form, &flag, name, has_newer](std::string_view value) -> Status {
                         flag = true;
                         std::string_view parser = value.substr(0, value.find('+'));
                         const char* usual = std::getenv("DIVVY_SLURM_JSON");
                         if (parser.empty() && usual != nullptr) parser = usual;
                         if (parser == "list") form.lists_parsers = true;
                         else if (parser == kNewer && has_newer) form.schema = JsonSchema::k40;
                         else if (!parser.empty() && parser != kOlder)
                           Note("--" + std::string(name) + "=" + std::string(parser) + ": the fields are those of " +
                                std::string(kOlder) + ", plain numbers and words");
                         return {};
                       },
                       .aliases = {}});
  };
  add("json", "JSON; SCHEMA: v0.0.38 (default) or v0.0.40", form.is_json);
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
