// Lines of key=value: the format of run records, of supervisors' reports and of commands to supervisors.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace divvy {

/// Writes lines of key=value. A value takes one line: a line feed in it becomes a blank.
class RecordWriter {
 public:
  void Add(std::string_view key, std::string_view value);
  void Add(std::string_view key, std::int64_t value);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Reads lines of key=value. If a key occurs twice, the later line wins. A line without '=' and a last line without a
/// line feed are skipped.
class RecordFields {
 public:
  explicit RecordFields(std::string_view text);
  std::string_view Text(std::string_view key) const;
  /// Returns the number stored under `key`; 0 if the key is absent or its value is not a number.
  std::int64_t Number(std::string_view key) const;

 private:
  std::map<std::string_view, std::string_view> values_;
};

}  // namespace divvy
