// JSON as Slurm 22.05's commands print it (--json): plain fields, no {"set": ...} around numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "wire/json/json.h"

namespace divvy::cli::slurm {

/// Writes the fields of one object, by type.
class JsonFields {
 public:
  explicit JsonFields(JsonWriter& json) : json_(json) {}
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

 private:
  JsonWriter& json_;
};

/// Writes "meta" and an empty "errors", which precede the list in every answer. `command` is the program.
void AddMeta(JsonWriter& json, std::string_view command);

/// The options --json and --yaml, which every listing accepts.
struct AnswerForm {
  bool is_json = false;
  bool is_yaml = false;
  bool lists_parsers = false;  // --json=list
  bool any() const { return is_json || is_yaml; }
};
/// Appends the options "--json[=v0.0.38|list]" and "--yaml[=...]". If a schema of another Slurm release is requested, a
/// note names the release whose schema is printed.
void AddAnswerForms(std::vector<dialect::Option>& options, AnswerForm& form);
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
