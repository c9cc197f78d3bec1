// Tables that people publish: comma-separated text with a line of titles, plain or gzip-packed, read line by line.
// Every error names the file and the line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::simulate {

class CsvFile {
 public:
  /// Fails when the file cannot be read or lacks one of the `required` columns.
  static Result<CsvFile> Open(const std::string& path, const std::vector<std::string_view>& required);
  CsvFile(CsvFile&&) noexcept;
  CsvFile& operator=(CsvFile&&) noexcept;
  ~CsvFile();

  /// Goes to the next line that is not empty; false: there is none. Fails on a torn or damaged file, on an open quote
  /// and on a line whose count of fields is not the titles'.
  Result<bool> Next();
  /// "" where there is no such column. Valid until Next.
  std::string_view Field(std::string_view column) const;
  /// A whole number from 0 to `most`; an empty field is refused too.
  Result<std::int64_t> Count(std::string_view column, std::int64_t most) const;

  /// "FILE:17: `what`".
  Error Wrong(const std::string& what) const;

 private:
  struct Source;
  explicit CsvFile(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace divvy::simulate
