// Interfaces that hide from which database a row comes: the parameters of a statement, and a row of its result. As in
// SQLite, parameters count from 1 and columns from 0.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace divvy {

class Parameters {
 public:
  virtual ~Parameters() = default;
  virtual void Bind(int parameter, std::int64_t value) = 0;
  /// Does not copy the text, which must live until the statement has run.
  virtual void Bind(int parameter, std::string_view text) = 0;
  virtual void BindCopy(int parameter, std::string_view text) = 0;
  virtual void BindNull(int parameter) = 0;
};

class Columns {
 public:
  virtual ~Columns() = default;
  virtual std::int64_t Integer(int column) const = 0;
  virtual std::string_view Text(int column) const = 0;  // Valid until the next row.
  virtual bool IsNull(int column) const = 0;
};

}  // namespace divvy
