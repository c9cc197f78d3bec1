#include "platform/os/record_text.h"

#include <algorithm>

#include "base/text.h"

namespace divvy {

void RecordWriter::Add(std::string_view key, std::string_view value) {
  text_.append(key).push_back('=');
  const std::size_t begin = text_.size();
  text_.append(value);
  std::replace(text_.begin() + static_cast<std::ptrdiff_t>(begin), text_.end(), '\n', ' ');
  text_.push_back('\n');
}

void RecordWriter::Add(std::string_view key, std::int64_t value) { Add(key, std::to_string(value)); }

RecordFields::RecordFields(std::string_view text) {
  while (true) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) return;
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) values_[line.substr(0, equals)] = line.substr(equals + 1);
  }
}

std::string_view RecordFields::Text(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? std::string_view() : found->second;
}

std::int64_t RecordFields::Number(std::string_view key) const { return ParseInteger(Text(key)).value_or(0); }

}  // namespace divvy
