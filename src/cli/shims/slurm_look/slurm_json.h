// JSON as Slurm 22.05's commands print it (--json): plain fields, no {"set": ...} around numbers.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dialect/options/options.h"
#include "wire/json/json.h"

namespace divvy::cli::slurm {

/// The fields of one object, by kind.
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

/// "meta" and an empty "errors": what stands before the list in every answer. `command` is the program.
void AddMeta(JsonWriter& json, std::string_view command);

/// Of --json and --yaml, which every listing takes.
struct AnswerForm {
  bool is_json = false;
  bool is_yaml = false;
  bool lists_parsers = false;  // --json=list
  bool any() const { return is_json || is_yaml; }
};
/// Appends "--json[=v0.0.38|list]" and "--yaml[=...]". Of another release's shape a note says which these fields are
/// of.
void AddAnswerForms(std::vector<dialect::Option>& options, AnswerForm& form);
/// What --json=list answers; 0.
int PrintParsers();
/// To stdout, as YAML where that is wanted. `json` is an object and the end of the line.
void PrintAnswer(const std::string& json, const AnswerForm& form);
/// JSON as YAML in blocks; the text itself where it is none.
std::string YamlOf(const std::string& json);

/// {"meta": ..., KEY: [{"field": "text", ...}, ...]}: of listings that are text in all columns. Whole numbers are
/// numbers.
using Record = std::map<std::string, std::string, std::less<>>;
std::string RecordsJson(std::string_view command, std::string_view key, const std::vector<Record>& records);

}  // namespace divvy::cli::slurm
