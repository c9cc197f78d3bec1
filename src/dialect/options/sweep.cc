// Parameter grids and arrays: the number of elements of a submission, and the values of each element.
#include <algorithm>
#include <cmath>
#include <optional>

#include "base/text.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quoted.h"

namespace divvy::dialect {
namespace {

/// The largest number of elements in one submission. It is also Slurm's largest array size.
constexpr std::uint64_t kMostElements = 4'000'000;
/// The largest number of values in a sweep. They are stored as texts in the job's row of the database.
constexpr std::int64_t kMostValues = 100'000;
constexpr std::size_t kMostColumns = 64;
constexpr std::size_t kLongestName = 64;

Status CheckName(std::string_view name) {
  const auto is_word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool is_fine =
      !name.empty() && name.size() <= kLongestName && is_word(name.front()) &&
      std::ranges::all_of(name, [&](char c) { return is_word(c) || (c >= '0' && c <= '9') || c == '-' || c == '.'; });
  if (is_fine) return {};
  return InvalidArgument(
      Quoted(name) +
      " is not a valid parameter name; use up to 64 letters, digits, '_', '-' and '.', and begin with a letter or '_'");
}

Status CheckNew(std::string_view name, const JobSpec& spec) {
  if (std::ranges::any_of(spec.parameters, [&](const Parameter& other) { return other.name == name; })) {
    return InvalidArgument("the parameter " + Quoted(name) + " is given twice; list all its values in one place");
  }
  if (spec.parameters.size() >= kMostColumns)
    return InvalidArgument("a sweep has at most " + std::to_string(kMostColumns) + " parameters");
  return {};
}

/// A decimal as an integer multiple of 10^-digits, so that 0:1:0.1 has exactly eleven values.
struct Decimal {
  std::int64_t value = 0;
  int digits = 0;
};

std::optional<Decimal> ReadDecimal(std::string_view text) {
  constexpr int kMostDigits = 9;
  Decimal decimal;
  std::string joined(text);
  if (const auto point = text.find('.'); point != std::string_view::npos) {
    decimal.digits = static_cast<int>(text.size() - point - 1);
    if (decimal.digits == 0 || decimal.digits > kMostDigits) return std::nullopt;
    joined.erase(point, 1);
  }
  const auto value = ParseInteger(joined);
  // Nine digits before and nine after the point fit into 64 bits.
  if (!value || std::abs(static_cast<double>(*value)) > 1e9) return std::nullopt;
  decimal.value = *value;
  return decimal;
}

std::string WriteDecimal(std::int64_t value, int digits) {
  std::string out = std::to_string(value < 0 ? -value : value);
  if (digits > 0) {
    if (out.size() <= static_cast<std::size_t>(digits))
      out.insert(0, static_cast<std::size_t>(digits) + 1 - out.size(), '0');
    out.insert(out.size() - static_cast<std::size_t>(digits), ".");
  }
  return value < 0 ? "-" + out : out;
}

/// "0:9", "0:1:0.25", "9:0:-3", both ends included. nullopt if `text` is not a range.
Result<std::optional<std::vector<std::string>>> ReadRange(std::string_view text) {
  const auto parts = Split(text, ':');
  if (parts.size() < 2 || parts.size() > 3) return std::nullopt;
  std::vector<Decimal> numbers;
  int digits = 0;
  for (std::string_view part : parts) {
    const auto number = ReadDecimal(part);
    if (!number) return std::nullopt;
    numbers.push_back(*number);
    digits = std::max(digits, number->digits);
  }
  for (Decimal& number : numbers) {
    for (; number.digits < digits; ++number.digits) number.value *= 10;
  }
  const std::int64_t first = numbers[0].value;
  const std::int64_t last = numbers[1].value;
  std::int64_t unit = 1;
  for (int i = 0; i < digits; ++i) unit *= 10;
  const std::int64_t step = numbers.size() == 3 ? numbers[2].value : unit;
  if (step == 0) return InvalidArgument(Quoted(text) + ": the step is 0; write a range as start:stop:step");
  if ((last - first) / step < 0 || (last != first && (last < first) != (step < 0))) {
    return InvalidArgument(
        Quoted(text) +
        ": the step has the wrong sign to reach the stop; write a range as start:stop:step, such as 9:0:-1");
  }
  const std::int64_t count = (last - first) / step + 1;
  if (count > kMostValues)
    return InvalidArgument(Quoted(text) + " has " + std::to_string(count) + " values, but at most " +
                           std::to_string(kMostValues) + " are allowed; use --array for more");
  std::vector<std::string> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(WriteDecimal(first + i * step, digits));
  return values;
}

using Row = std::vector<std::string>;

/// Parses CSV according to RFC 4180: quotes, doubled quotes, line breaks inside quotes.
class CsvReader {
 public:
  CsvReader(std::string_view text, std::string_view path) : text_(text), path_(path) {
    if (text_.starts_with("\xEF\xBB\xBF")) text_.remove_prefix(3);
  }

  /// The line on which the last row began.
  int line() const { return row_line_; }
  std::string Place() const { return std::string(path_) + " line " + std::to_string(row_line_); }

  /// The next row that is not blank; nullopt at the end.
  Result<std::optional<Row>> Next() {
    while (at_ < text_.size()) {
      row_line_ = next_line_;
      DIVVY_TRY(Row row, ReadRow());
      if (row.size() > 1 || !row.front().empty()) return row;
    }
    return std::nullopt;
  }

 private:
  Result<Row> ReadRow() {
    Row row(1);
    bool was_quoted = false;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') {
        ++next_line_;
        break;
      }
      if (c == '\r' && (at_ == text_.size() || text_[at_] == '\n')) continue;
      if (c == ',') {
        row.emplace_back();
        was_quoted = false;
      } else if (c == '"' && row.back().empty() && !was_quoted) {
        DIVVY_CHECK(ReadQuoted(row.back()));
        was_quoted = true;
      } else if (was_quoted || c == '"') {
        return InvalidArgument(Place() + ": a quote in the middle of a field; write \"\" for a quote inside quotes");
      } else {
        row.back() += c;
      }
    }
    if (row.size() > kMostColumns)
      return InvalidArgument(Place() + ": more than " + std::to_string(kMostColumns) + " fields");
    return row;
  }

  Status ReadQuoted(std::string& field) {
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') ++next_line_;
      if (c != '"') {
        field += c;
      } else if (at_ < text_.size() && text_[at_] == '"') {
        field += '"';
        ++at_;
      } else {
        return {};
      }
    }
    return InvalidArgument(Place() + ": a quoted field is not closed; add \"");
  }

  std::string_view text_;
  std::string_view path_;
  std::size_t at_ = 0;
  int next_line_ = 1;
  int row_line_ = 1;
};

/// The dimensions of a sweep: groups of columns that advance together, in the order of their first column.
std::vector<std::vector<const Parameter*>> Dimensions(const JobSpec& spec) {
  std::vector<std::vector<const Parameter*>> dimensions;
  for (const Parameter& parameter : spec.parameters) {
    const auto same = std::ranges::find_if(dimensions, [&](const std::vector<const Parameter*>& other) {
      return parameter.row_group >= 0 && other.front()->row_group == parameter.row_group;
    });
    if (same == dimensions.end()) {
      dimensions.push_back({&parameter});
    } else {
      same->push_back(&parameter);
    }
  }
  return dimensions;
}

std::string TooMany() {
  return "the sweep and the array make more than " + std::to_string(kMostElements) +
         " elements; submit them in several jobs";
}

}  // namespace

Status ParseParameter(std::string_view text, JobSpec& spec) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) {
    return InvalidArgument(Quoted(text) + " has no '='; write it like lr=1e-3,1e-4 or seed=0:9");
  }
  Parameter parameter;
  parameter.name = Trim(text.substr(0, equals));
  DIVVY_CHECK(CheckName(parameter.name));
  DIVVY_CHECK(CheckNew(parameter.name, spec));
  const std::string_view values = Trim(text.substr(equals + 1));
  if (values.empty()) return InvalidArgument(Quoted(text) + " has no values; write it like " + parameter.name + "=1,2");
  DIVVY_TRY(auto range, ReadRange(values));
  if (range) {
    parameter.values = std::move(*range);
  } else {
    for (std::string_view value : Split(values, ',')) {
      if (Trim(value).empty()) return InvalidArgument(Quoted(text) + " has an empty value between commas");
      parameter.values.emplace_back(Trim(value));
    }
    if (std::ssize(parameter.values) > kMostValues) {
      return InvalidArgument("the parameter " + Quoted(parameter.name) + " has more than " +
                             std::to_string(kMostValues) + " values");
    }
  }
  spec.parameters.push_back(std::move(parameter));
  return {};
}

Status ParseParameterFile(std::string_view csv, std::string_view path, JobSpec& spec) {
  CsvReader reader(csv, path);
  DIVVY_TRY(auto header, reader.Next());
  if (!header)
    return InvalidArgument(std::string(path) + " is empty; write the parameter names on its first line: lr,seed");
  int group = 0;
  for (const Parameter& other : spec.parameters) group = std::max(group, other.row_group + 1);
  JobSpec read;
  read.parameters = spec.parameters;
  const std::size_t first_new = read.parameters.size();
  for (const std::string& field : *header) {
    const std::string_view name = Trim(field);
    Status status = CheckName(name);
    if (status) status = CheckNew(name, read);
    if (!status) return InvalidArgument(reader.Place() + ": " + status.error().message);
    read.parameters.push_back(Parameter{.name = std::string(name), .values = {}, .row_group = group});
  }
  while (true) {
    DIVVY_TRY(auto row, reader.Next());
    if (!row) break;
    if (row->size() != header->size()) {
      return InvalidArgument(reader.Place() + " has " + Plural(std::ssize(*row), "field") + ", but the header has " +
                             std::to_string(header->size()));
    }
    for (std::size_t i = 0; i < row->size(); ++i) read.parameters[first_new + i].values.push_back(std::move((*row)[i]));
    if (std::ssize(read.parameters[first_new].values) > kMostValues) {
      return InvalidArgument(reader.Place() + ": more than " + std::to_string(kMostValues) +
                             " rows; submit them in several jobs");
    }
  }
  if (read.parameters[first_new].values.empty()) {
    return InvalidArgument(std::string(path) + " has a header but no rows; add one line for each job");
  }
  spec.parameters = std::move(read.parameters);
  return {};
}

Result<std::uint64_t> ElementCount(const JobSpec& spec) {
  if (!spec.array && spec.parameters.empty()) return 0;
  std::uint64_t count = spec.array ? spec.array->indices.size() : 1;
  if (count > kMostElements) return InvalidArgument(TooMany());
  for (const auto& dimension : Dimensions(spec)) {
    const std::size_t values = dimension.front()->values.size();
    for (const Parameter* column : dimension) {
      if (column->values.size() != values)
        return InvalidArgument("the columns of a parameter file must have the same length");
    }
    if (values > kMostElements) return InvalidArgument(TooMany());
    count *= values;
    if (count > kMostElements) return InvalidArgument(TooMany());
  }
  if (count == 0) return InvalidArgument("the sweep or array is empty; give at least one index or value");
  return count;
}

Element ElementAt(const JobSpec& spec, std::uint64_t ordinal) {
  Element element;
  element.index = static_cast<std::uint32_t>(ordinal);
  if (spec.array) {
    const std::uint64_t size = spec.array->indices.size();
    DIVVY_ASSERT(size > 0);
    element.index = spec.array->indices.Nth(ordinal % size).value_or(0);
    ordinal /= size;
  }
  const auto dimensions = Dimensions(spec);
  for (auto dimension = dimensions.rbegin(); dimension != dimensions.rend(); ++dimension) {
    const std::size_t size = dimension->front()->values.size();
    DIVVY_ASSERT(size > 0);
    for (const Parameter* column : *dimension) {
      DIVVY_ASSERT(column->values.size() == size);
      element.parameters[column->name] = column->values[ordinal % size];
    }
    ordinal /= size;
  }
  return element;
}

std::string FillParameters(std::string_view text, const std::map<std::string, std::string>& parameters) {
  std::string out;
  while (true) {
    const auto open = text.find('{');
    out += text.substr(0, open);
    if (open == std::string_view::npos) return out;
    // ${name} is a variable of the shell.
    const bool is_shells = open > 0 && text[open - 1] == '$';
    text.remove_prefix(open);
    // Search only as far as a name can be long, so that a text full of '{' has a linear cost.
    const auto close = text.substr(0, kLongestName + 2).find('}');
    const auto found = is_shells || close == std::string_view::npos
                           ? parameters.end()
                           : parameters.find(std::string(text.substr(1, close - 1)));
    if (found == parameters.end()) {
      out += '{';
      text.remove_prefix(1);
    } else {
      out += found->second;
      text.remove_prefix(close + 1);
    }
  }
}

std::optional<std::string> ElementName(const JobSpec& spec, std::uint64_t ordinal) {
  constexpr std::size_t kLongest = 256;
  if (spec.name_template.empty()) return std::nullopt;
  auto name = ReadLabel(FillParameters(spec.name_template, ElementAt(spec, ordinal).parameters), kLongest);
  return name ? std::optional(*std::move(name)) : std::nullopt;
}

}  // namespace divvy::dialect
