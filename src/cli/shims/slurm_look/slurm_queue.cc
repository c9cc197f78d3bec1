#include "cli/shims/slurm_look/slurm_queue.h"

#include <algorithm>

#include "base/text.h"

namespace divvy::cli::slurm {
namespace {

std::vector<JobField> FieldsOf(const QueueFormat& format, const Scene& scene) {
  return format.is_of_steps ? StepFields(scene) : JobFields(scene);
}

Result<std::vector<Shown<QueueRow>>> ColumnsOf(const QueueFormat& format, const std::vector<JobField>& fields) {
  const std::string_view what = format.is_of_steps ? "job step" : "job";
  if (!format.names.empty()) return ParseNames(format.names, fields, what);
  return ParseLetters(format.letters, fields, what);
}

/// Compares numbers by value and other texts alphabetically.
bool Less(const std::string& a, const std::string& b) {
  const auto x = ParseNumber(a);
  const auto y = ParseNumber(b);
  return x && y ? *x < *y : a < b;
}

Status SortBy(std::vector<QueueRow>& rows, std::string_view sort, const std::vector<JobField>& fields) {
  const std::vector<std::string_view> keys = Split(sort, ',');
  // Sort stably by the last key first, so that the first key decides.
  for (auto key = keys.rbegin(); key != keys.rend(); ++key) {
    std::string_view letters = Trim(*key);
    const bool is_descending = letters.starts_with('-');
    if (letters.starts_with('-') || letters.starts_with('+')) letters.remove_prefix(1);
    if (letters.empty()) continue;
    const auto field = std::ranges::find(fields, letters.front(), &JobField::letter);
    if (letters.size() != 1 || field == fields.end())
      return InvalidArgument("Invalid sort specification: " + std::string(*key) + "; write letters of --format: P,-t");
    std::ranges::stable_sort(rows, [&](const QueueRow& a, const QueueRow& b) {
      const std::string x = field->text(a);
      const std::string y = field->text(b);
      return is_descending ? Less(y, x) : Less(x, y);
    });
  }
  return {};
}

}  // namespace

bool QueueNeedsDetail(const QueueFormat& format) {
  const Scene nowhere;
  const std::vector<JobField> fields = FieldsOf(format, nowhere);
  const auto columns = ColumnsOf(format, fields);
  return columns && std::ranges::any_of(*columns, [](const auto& one) { return one.field->needs_detail; });
}

Result<std::string> FormatQueue(std::vector<QueueRow> rows, const QueueFormat& format, const Scene& scene) {
  const std::vector<JobField> fields = FieldsOf(format, scene);
  DIVVY_TRY(const std::vector<Shown<QueueRow>> columns, ColumnsOf(format, fields));
  if (!format.sort.empty()) DIVVY_CHECK(SortBy(rows, format.sort, fields));
  std::string text = format.has_header ? HeaderLine(columns) : "";
  for (const QueueRow& row : rows) text += RowLine(columns, row);
  return text;
}

}  // namespace divvy::cli::slurm
