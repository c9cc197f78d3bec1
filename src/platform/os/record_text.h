// Lines of key=value: the format of run records, of supervisors' reports and of commands to them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace divvy {

/// Writes them. A value is one line: a line feed in it becomes a blank.
class RecordWriter {
 public:
  void Add(std::string_view key, std::string_view value);
  void Add(std::string_view key, std::int64_t value);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

/// Reads them. A later line wins over an earlier one of the same key; a line without '=' and a last line without line
/// feed are skipped.
class RecordFields {
 public:
  explicit RecordFields(std::string_view text);
  std::string_view Text(std::string_view key) const;
  /// 0 when absent or not a number.
  std::int64_t Number(std::string_view key) const;

 private:
  std::map<std::string_view, std::string_view> values_;
};

}  // namespace divvy
