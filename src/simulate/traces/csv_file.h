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

/// How a table is written, where it is no CSV file with a line of titles.
struct TableStyle {
  char separator = ',';  // Only ',' knows quotes. ' ': any run of spaces and tabs.
  char comment = 0;      // Lines that begin with it are kept apart; 0: there are none.
  /// Not empty: the file has no line of titles, and these are its columns.
  std::vector<std::string> titles;
};

class CsvFile {
 public:
  /// Fails when the file cannot be read or lacks one of the `required` columns.
  static Result<CsvFile> Open(const std::string& path, const std::vector<std::string_view>& required,
                              TableStyle style = {});
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
  /// A decimal number from `least` to `most`.
  Result<double> Number(std::string_view column, double least, double most) const;
  bool Has(std::string_view column) const;
  /// The lines of comment so far, without their first character; at most the first thousand.
  const std::vector<std::string>& comments() const;

  /// "FILE:17: `what`".
  Error Wrong(const std::string& what) const;

 private:
  struct Source;
  explicit CsvFile(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace divvy::simulate
