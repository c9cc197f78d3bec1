// JSON as Slurm's commands print it (--json). Slurm 22.05 has plain numbers and words; from 23.11 on, many numbers are
// {"set": true, "infinite": false, "number": 3}, and states are lists.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "wire/json/json.h"
#include "wire/messages/messages.h"

namespace divvy::cli::slurm {

/// The schema of the fields of jobs and steps: v0.0.38 of Slurm 22.05, or v0.0.40 of 23.11.
enum class JsonSchema : std::uint8_t { k38, k40 };

/// Writes the fields of one object, by type.
class JsonFields {
 public:
  explicit JsonFields(JsonWriter& json, JsonSchema schema = JsonSchema::k38) : json_(json), schema_(schema) {}
  void Text(std::string_view key, std::string_view value) {
    json_.Key(key);
    json_.String(value);
  }
  void Number(std::string_view key, std::int64_t value) {
    json_.Key(key);
    json_.Int(value);
  }
  void Bool(std::string_view key, bool value) {
    json_.Key(key);
    json_.Bool(value);
  }

  /// Writes a number that the newer schema puts into an object. nullopt: not set (0 in the older schema).
  void SetNumber(std::string_view key, std::optional<std::int64_t> value);
  /// Writes a limit. 0: none, "infinite" in the newer schema.
  void Limit(std::string_view key, std::int64_t value);
  /// Writes a word that is a list in the newer schema.
  void Words(std::string_view key, std::string_view value);

 private:
  void SetNumber(std::string_view key, std::int64_t value, bool is_set, bool is_infinite);

  JsonWriter& json_;
  JsonSchema schema_;
};

/// Writes "meta" and an empty "errors", which precede the list in every answer. `command` is the program.
void AddMeta(JsonWriter& json, std::string_view command, JsonSchema schema = JsonSchema::k38);
/// Writes how a job has ended, as the object `key`.
void AddExit(std::string_view key, const wire::JobView& job, JsonSchema schema, JsonWriter& json);

/// The options --json and --yaml, which every listing accepts.
struct AnswerForm {
  bool is_json = false;
  bool is_yaml = false;
  bool lists_parsers = false;  // --json=list
  JsonSchema schema = JsonSchema::k38;
  bool any() const { return is_json || is_yaml; }
};
/// Appends the options "--json[=v0.0.38|v0.0.40|list]" and "--yaml[=...]". Without a value, DIVVY_SLURM_JSON may name
/// the schema. If another one is requested, a note names the one that is printed. `has_newer`: the command prints
/// v0.0.40.
void AddAnswerForms(std::vector<dialect::Option>& options, AnswerForm& form, bool has_newer = false);
/// Prints the answer to --json=list. Returns 0.
int PrintParsers();
/// Prints `json`, an object with a line break, to stdout; as YAML if requested.
void PrintAnswer(const std::string& json, const AnswerForm& form);
/// Converts JSON to block YAML. Returns the text unchanged if it is not JSON.
std::string YamlOf(const std::string& json);

/// {"meta": ..., KEY: [{"field": "text", ...}, ...]}, for listings with text in all columns. Whole numbers become
/// numbers.
using Record = std::map<std::string, std::string, std::less<>>;
std::string RecordsJson(std::string_view command, std::string_view key, const std::vector<Record>& records);

}  // namespace divvy::cli::slurm
