#include "simulate/traces/csv_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/text.h"

namespace divvy::simulate {
namespace {

// Tables of jobs have no longer lines. The limit keeps a wrong file from filling the memory.
constexpr std::size_t kLongestLine = 1 << 20;

constexpr std::size_t kMostComments = 1000;

struct CloseFile {
  void operator()(gzFile file) const { gzclose(file); }
};

/// Splits `line` into fields. In a CSV file, a field in double quotes may contain commas, and "" is a quote there.
/// Returns false on an open quote.
bool SplitFields(const std::string& line, char separator, std::vector<std::string>& fields) {
  fields.clear();
  if (separator != ',') {
    for (const auto part : separator == ' ' ? SplitWords(line) : Split(line, separator)) fields.emplace_back(part);
    return true;
  }
  std::string field;
  bool is_quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (is_quoted && c == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      field += line[++i];
    } else if (c == '"' && (is_quoted || field.empty())) {
      is_quoted = !is_quoted;
    } else if (c == ',' && !is_quoted) {
      fields.push_back(std::exchange(field, {}));
    } else {
      field += c;
    }
  }
  fields.push_back(std::move(field));
  return !is_quoted;
}

}  // namespace

struct CsvFile::Source {
  std::string path;
  TableStyle style;
  std::vector<std::string> comments;
  std::unique_ptr<gzFile_s, CloseFile> file;
  std::int64_t line_number = 0;
  std::array<char, 1 << 16> buffer{};
  std::size_t at = 0, end = 0;
  std::vector<std::string> titles;
  std::vector<std::string> fields;

  /// Returns false at the end of the file.
  Result<bool> Line(std::string& line) {
    line.clear();
    for (;;) {
      if (at == end) {
        const int count = gzread(file.get(), buffer.data(), static_cast<unsigned>(buffer.size()));
        int code = Z_OK;
        const char* const text = gzerror(file.get(), &code);
        // A truncated gzip file can be read up to its end; only the error code shows it.
        if (count < 0 || code == Z_BUF_ERROR)
          return CorruptData(path + ": cannot be read past line " + std::to_string(line_number) + ": " +
                             (code == Z_BUF_ERROR ? "the gzip file is truncated"
                              : code == Z_ERRNO   ? std::strerror(errno)
                                                  : text));
        if (count == 0) {
          line_number += !line.empty();
          return !line.empty();
        }
        at = 0;
        end = static_cast<std::size_t>(count);
      }
      const char* const begin = buffer.data() + at;
      const auto* const newline = static_cast<const char*>(std::memchr(begin, '\n', end - at));
      const std::size_t length = newline == nullptr ? end - at : static_cast<std::size_t>(newline - begin);
      line.append(begin, length);
      at += length + (newline != nullptr);
      if (line.size() > kLongestLine)
        return CorruptData(path + ":" + std::to_string(line_number + 1) +
                           ": the line is longer than 1 MB; this is not a CSV file");
      if (newline == nullptr) continue;
      ++line_number;
      if (!line.empty() && line.back() == '\r') line.pop_back();
      return true;
    }
  }

  /// Reads the next line that is neither empty nor a comment. Returns false if there is none.
  Result<bool> LineOfTable(std::string& line) {
    for (;;) {
      DIVVY_TRY(const bool is_there, Line(line));
      if (!is_there) return false;
      if (Trim(line).empty()) continue;
      if (style.comment == 0 || line.front() != style.comment) return true;
      if (comments.size() < kMostComments) comments.push_back(line.substr(1));
    }
  }
};

CsvFile::CsvFile(std::unique_ptr<Source> source) : source_(std::move(source)) {}
CsvFile::CsvFile(CsvFile&&) noexcept = default;
CsvFile& CsvFile::operator=(CsvFile&&) noexcept = default;
CsvFile::~CsvFile() = default;

Result<CsvFile> CsvFile::Open(const std::string& path, const std::vector<std::string_view>& required,
                              TableStyle style) {
  auto source = std::make_unique<Source>();
  source->path = path;
  source->style = std::move(style);
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    const std::string why = path + ": " + std::strerror(errno);
    return errno == EACCES ? PermissionDenied(why) : NotFound(why);
  }
  source->file.reset(gzdopen(fd, "rb"));
  if (!source->file) {
    ::close(fd);
    return Internal(path + ": not enough memory to read it");
  }
  if (!source->style.titles.empty()) {
    source->titles = source->style.titles;
    return CsvFile(std::move(source));
  }
  std::string line;
  DIVVY_TRY(const bool has_titles, source->LineOfTable(line));
  if (!has_titles || !SplitFields(line, source->style.separator, source->titles))
    return CorruptData(path + ": has no header line");
  for (const std::string_view column : required) {
    if (std::ranges::find(source->titles, column) == source->titles.end())
      return InvalidArgument(path + ":" + std::to_string(source->line_number) + ": there is no column '" +
                             std::string(column) + "'; the columns are " + line);
  }
  return CsvFile(std::move(source));
}

Result<bool> CsvFile::Next() {
  std::string line;
  DIVVY_TRY(const bool is_there, source_->LineOfTable(line));
  if (!is_there) return false;
  if (!SplitFields(line, source_->style.separator, source_->fields)) return Wrong("a quote is not closed");
  if (source_->fields.size() != source_->titles.size())
    return Wrong("has " + Plural(static_cast<std::int64_t>(source_->fields.size()), "field") +
                 (source_->style.titles.empty() ? ", the header has " : ", the format has ") +
                 std::to_string(source_->titles.size()));
  return true;
}

std::string_view CsvFile::Field(std::string_view column) const {
  const auto title = std::ranges::find(source_->titles, column);
  if (title == source_->titles.end()) return "";
  return source_->fields[static_cast<std::size_t>(title - source_->titles.begin())];
}

Result<std::int64_t> CsvFile::Count(std::string_view column, std::int64_t most) const {
  const std::string_view text = Field(column);
  const auto value = ParseInteger(text);
  if (!value || *value < 0 || *value > most)
    return Wrong(std::string(column) + " '" + std::string(text) + "' is not a whole number from 0 to " +
                 std::to_string(most));
  return *value;
}

Result<double> CsvFile::Number(std::string_view column, double least, double most) const {
  const std::string_view text = Field(column);
  const auto value = ParseNumber(text);
  if (value && *value >= least && *value <= most) return *value;
  std::array<char, 96> range{};
  std::snprintf(range.data(), range.size(), "%.15g to %.15g", least, most);
  return Wrong(std::string(column) + " '" + std::string(text) + "' is not a number from " + range.data());
}

bool CsvFile::Has(std::string_view column) const {
  return std::ranges::find(source_->titles, column) != source_->titles.end();
}

const std::vector<std::string>& CsvFile::comments() const { return source_->comments; }

Error CsvFile::Wrong(const std::string& what) const {
  return CorruptData(source_->path + ":" + std::to_string(source_->line_number) + ": " + what);
}

}  // namespace divvy::simulate
