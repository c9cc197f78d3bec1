// Reads published tables: comma-separated text with a title line, plain or gzip-compressed, line by line. Every error
// names the file and the line.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace divvy::simulate {

/// The format of a table that is not a CSV file with a title line.
struct TableStyle {
  char separator = ',';  // Only ',' supports quotes. ' ': any run of spaces and tabs.
  char comment = 0;      // Lines that start with it are collected separately. 0: there are none.
  /// If set, the file has no title line, and these are its columns.
  std::vector<std::string> titles;
};

class CsvFile {
 public:
  /// Opens a CSV file. Fails if it cannot be read or lacks one of the `required` columns.
  static Result<CsvFile> Open(const std::string& path, const std::vector<std::string_view>& required,
                              TableStyle style = {});
  CsvFile(CsvFile&&) noexcept;
  CsvFile& operator=(CsvFile&&) noexcept;
  ~CsvFile();

  /// Moves to the next non-empty line. Returns false at the end. Fails on a truncated or damaged file, on an open
  /// quote, and on a line with a different number of fields than the titles.
  Result<bool> Next();
  /// Returns the field of the present line in this column; "" if there is no such column. The text is valid until Next.
  std::string_view Field(std::string_view column) const;
  /// Returns the field as an integer from 0 to `most`. Fails if it is anything else, also if it is empty.
  Result<std::int64_t> Count(std::string_view column, std::int64_t most) const;
  /// Returns the field as a decimal number from `least` to `most`. Fails if it is anything else.
  Result<double> Number(std::string_view column, double least, double most) const;
  bool Has(std::string_view column) const;
  /// The comment lines read so far, without their first character; at most the first thousand of them.
  const std::vector<std::string>& comments() const;

  /// Returns an error about the present line: "FILE:17: `what`".
  Error Wrong(const std::string& what) const;

 private:
  struct Source;
  explicit CsvFile(std::unique_ptr<Source> source);
  std::unique_ptr<Source> source_;
};

}  // namespace divvy::simulate
