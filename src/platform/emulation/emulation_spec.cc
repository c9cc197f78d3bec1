// Short descriptions ("8xH100-80GB,1xT4"), and the detection of a text's form.
#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "platform/emulation/emulation.h"
#include "platform/emulation/emulation_draft.h"

namespace divvy {
namespace {

struct Group {
  std::size_t count = 1;
  std::string_view model;
};

Result<Group> ParseGroup(std::string_view text) {
  if (text.empty()) return InvalidArgument("a group of GPUs is missing: " + std::string(kDescriptionExample));
  const std::size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  Group group{1, text};
  if (digits == text.size())
    return InvalidArgument("\"" + std::string(text) + "\" has no model: " + std::string(kDescriptionExample));
  if (digits == 0) {
    if (text.front() == '-')
      return InvalidArgument("the number of GPUs must be at least 1: " + std::string(kDescriptionExample));
    return group;
  }
  const std::string_view rest = Trim(text.substr(digits));
  if (rest.front() != 'x' && rest.front() != 'X' && rest.front() != '*') {
    if (DraftGpu(rest, std::nullopt).has_value()) {
      const std::string count(text.substr(0, digits));
      return InvalidArgument("an x is missing between the count and the model; did you mean " + count + "x" +
                             std::string(rest) + "?");
    }
    return group;  // The model name begins with digits.
  }
  const auto count = ParseInteger(text.substr(0, digits));
  if (!count || *count < 1)
    return InvalidArgument("the number of GPUs must be at least 1: " + std::string(kDescriptionExample));
  DIVVY_CHECK(CheckGpuCount(static_cast<std::size_t>(*count)));
  group.count = static_cast<std::size_t>(*count);
  group.model = Trim(rest.substr(1));
  if (group.model.empty())
    return InvalidArgument("the model is missing after the x: " + std::string(kDescriptionExample));
  return group;
}

Result<std::vector<GpuFacts>> ParseSpec(std::string_view spec) {
  std::vector<GpuDraft> drafts;
  for (std::string_view part : Split(spec, ',')) {
    const auto where = [&](Error error) {
      const std::string at = std::to_string(part.data() - spec.data() + 1);
      error.message = "GPU description \"" + std::string(spec) + "\", at character " + at + ": " + error.message;
      return error;
    };
    const Result<Group> group = ParseGroup(Trim(part));
    if (!group) return where(group.error());
    const Result<GpuDraft> draft = DraftGpu(group->model, std::nullopt);
    if (!draft) return where(draft.error());
    drafts.insert(drafts.end(), group->count, *draft);
    if (const Status status = CheckGpuCount(drafts.size()); !status) return where(status.error());
  }
  return FinishDrafts(drafts);
}

bool IsFileText(std::string_view text) {
  const std::string_view body = Trim(text);
  return text.find('\n') != std::string_view::npos || body.find('=') != std::string_view::npos ||
         body.starts_with('[') || body.starts_with('#');
}

/// True for names such as "gpus.txt": no model name has such an extension.
bool IsFileName(std::string_view text) {
  const std::size_t dot = text.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == text.size() || text.find_first_of(",\n=") != std::string_view::npos)
    return false;
  return std::ranges::all_of(text.substr(dot + 1), [](unsigned char c) { return std::isalpha(c) != 0; });
}

}  // namespace

std::optional<Bytes> ParseEmulatedMemory(std::string_view text) {
  struct Unit {
    std::string_view name;
    int shift;
  };
  constexpr Unit kUnits[] = {{"tib", 40}, {"tb", 40}, {"t", 40},   {"gib", 30}, {"gb", 30}, {"g", 30}, {"mib", 20},
                             {"mb", 20},  {"m", 20},  {"kib", 10}, {"kb", 10},  {"k", 10},  {"b", 0}};
  const std::string lower = ToLower(Trim(text));
  std::string_view number = lower;
  int shift = 0;
  for (const Unit& unit : kUnits) {
    if (!number.ends_with(unit.name)) continue;
    number = Trim(number.substr(0, number.size() - unit.name.size()));
    shift = unit.shift;
    break;
  }
  if (number.empty() || !std::isdigit(static_cast<unsigned char>(number.front()))) return std::nullopt;
  const auto count = ParseInteger(number);
  if (!count || *count > (std::int64_t{1} << 50) >> shift) return std::nullopt;
  return Bytes(*count << shift);
}

Result<std::vector<GpuFacts>> ParseGpuDescription(std::string_view spec_or_text) {
  if (spec_or_text.size() > 1'000'000) return InvalidArgument("a GPU description can have at most 1 MB");
  return IsFileText(spec_or_text) ? ParseDescriptionFile(spec_or_text) : ParseSpec(spec_or_text);
}

Result<std::vector<GpuFacts>> LoadGpuDescription(const std::string& spec_or_path) {
  struct stat about {};
  const bool is_there = stat(spec_or_path.c_str(), &about) == 0;
  if (!is_there && spec_or_path.find('/') == std::string::npos && !IsFileName(spec_or_path))
    return ParseGpuDescription(spec_or_path);
  std::ifstream file(spec_or_path);
  if (!is_there || !S_ISREG(about.st_mode) || !file) {
    const std::string why = is_there && !S_ISREG(about.st_mode) ? "not a file" : std::strerror(errno);
    return InvalidArgument("cannot read the GPU description " + spec_or_path + " (" + why +
                           "): expected a file, or a description such as 8xH100-80GB");
  }
  std::ostringstream text;
  text << file.rdbuf();
  Result<std::vector<GpuFacts>> gpus = ParseGpuDescription(text.str());
  if (!gpus) gpus.error().message = spec_or_path + ": " + gpus.error().message;
  return gpus;
}

}  // namespace divvy
