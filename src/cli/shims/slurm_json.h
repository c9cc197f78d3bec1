// JSON as Slurm 22.05's commands print it (--json): plain fields, no {"set": ...} around numbers.
#pragma once

#include <string>
#include <string_view>

#include "wire/json.h"

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

}  // namespace divvy::cli::slurm
