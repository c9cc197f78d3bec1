#include "dialect/options/option_values.h"

#include <algorithm>
#include <vector>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "engine/gpu_type.h"
#include "model/job_record.h"

namespace divvy::dialect {
namespace {

/// The largest accepted number of GPUs, more than any server has. The real capacity is checked when the job is
/// submitted.
constexpr int kMostGpus = 1024;
/// For an elastic job: the capacity of one server (GpuSet::kCapacity).
constexpr int kMostElasticGpus = GpuSet::kCapacity;
constexpr std::size_t kLongestPath = 4096;
constexpr std::string_view kExportLabel = "divvy.export";

bool IsVariableName(std::string_view name) {
  const auto is_letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && is_letter(name.front()) &&
         std::ranges::all_of(name, [&](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool HasControlCharacter(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; });
}

}  // namespace

Result<int> ReadCount(std::string_view text, int least, int most, std::string_view what) {
  const auto value = ParseInteger(Trim(text));
  if (value && *value >= least && *value <= most) return static_cast<int>(*value);
  return InvalidArgument(Quoted(text) + " is not a valid number of " + std::string(what) +
                         "; write a whole number from " + std::to_string(least) + " to " + std::to_string(most));
}

Result<int> ReadGpuCount(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const bool has_digits_alone = !trimmed.empty() && trimmed.find_first_not_of("0123456789.x") == std::string_view::npos;
  if (trimmed.find("..") != std::string_view::npos) {
    return InvalidArgument(Quoted(text) +
                           ": expected one number of GPUs; to request a range, use divvy submit --gpus 2..8");
  }
  if (has_digits_alone && trimmed.find('.') != std::string_view::npos) {
    return InvalidArgument(Quoted(text) +
                           ": expected whole GPUs; to request a GPU fraction, use divvy submit --gpus 0.5");
  }
  if (const auto colon = trimmed.find(':'); colon != std::string_view::npos) {
    return InvalidArgument(Quoted(text) +
                           " is not a number of GPUs; give the model separately: --gpus 2 --gpu-type h100");
  }
  return ReadCount(trimmed, 0, kMostGpus, "GPUs");
}

Result<GpuRange> ReadGpuRange(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const auto dots = trimmed.find("..");
  if (dots == std::string_view::npos) {
    DIVVY_TRY(const int count, ReadGpuCount(text));
    return GpuRange{count, 0};
  }
  const auto least = ParseInteger(Trim(trimmed.substr(0, dots)));
  const auto most = ParseInteger(Trim(trimmed.substr(dots + 2)));
  if (!least || !most || *least < 1 || *most < 1 || *least > kMostElasticGpus || *most > kMostElasticGpus) {
    return InvalidArgument(Quoted(text) + " is not a valid range of GPUs; write it like 2..8, with numbers from 1 to " +
                           std::to_string(kMostElasticGpus));
  }
  if (*least > *most) {
    return InvalidArgument(Quoted(text) + ": the smaller number must come first; write " + std::to_string(*most) +
                           ".." + std::to_string(*least));
  }
  return GpuRange{static_cast<int>(*least), *least == *most ? 0 : static_cast<int>(*most)};
}

Status ParseTopology(std::string_view text, Request& request) {
  constexpr std::pair<std::string_view, TopologyNeed> kNeeds[] = {{"any", TopologyNeed::kAny},
                                                                  {"numa", TopologyNeed::kNuma},
                                                                  {"nvlink", TopologyNeed::kNvlink},
                                                                  {"rack", TopologyNeed::kRack},
                                                                  {"block", TopologyNeed::kBlock}};
  const std::string_view trimmed = Trim(text);
  const auto colon = trimmed.find(':');
  const bool is_required = colon != std::string_view::npos;
  const auto* need = std::ranges::find_if(
      kNeeds, [&](const auto& known) { return EqualsIgnoringCase(trimmed.substr(0, colon), known.first); });
  if (need == std::end(kNeeds) || (is_required && !EqualsIgnoringCase(trimmed.substr(colon + 1), "required"))) {
    return InvalidArgument(Quoted(text) +
                           " is not a topology: expected any, numa or nvlink (for GPUs), rack or block (for nodes); "
                           "add ':required' to wait for it");
  }
  if (is_required && need->second == TopologyNeed::kAny)
    return InvalidArgument(Quoted(text) + ": 'any' cannot be required; write any");
  request.topology = need->second;
  request.requires_topology = is_required;
  return {};
}

Result<Preemptible> ReadPreemptible(std::string_view text) {
  if (EqualsIgnoringCase(text, "never")) return Preemptible::kNever;
  if (EqualsIgnoringCase(text, "pause")) return Preemptible::kPause;
  if (EqualsIgnoringCase(text, "requeue")) return Preemptible::kRequeue;
  return InvalidArgument(Quoted(text) + " is not a preemption action: expected never, pause or requeue");
}

Result<std::string> ReadGpuType(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  if (HasControlCharacter(trimmed) || trimmed.size() > 256)
    return InvalidArgument(Quoted(text) + " is not a GPU model: write at most 256 printable characters, such as h100");
  if (trimmed.find(',') != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + ": separate alternatives by '|', as in \"h100|a100\"");
  }
  std::string out;
  for (std::string_view alternative : Split(trimmed, '|')) {
    if (!out.empty()) out += '|';
    std::string terms;
    const auto star = alternative.find('*');
    const bool has_speed = star != std::string_view::npos;
    const std::string_view speed = has_speed ? Trim(alternative.substr(star + 1)) : std::string_view();
    if (has_speed && !SpeedInThousandths(speed)) {
      return InvalidArgument(Quoted(text) +
                             ": expected a speed from 0.001 to 1000 after '*', as in \"h100*1.0|a100*0.55\"");
    }
    for (std::string_view term : Split(alternative.substr(0, star), '&')) {
      if (Trim(term).empty()) {
        return InvalidArgument(Quoted(text) + " has an empty part; write it like h100, \"h100|a100\" or \"h100&80gb\"");
      }
      terms += (terms.empty() ? "" : "&") + std::string(Trim(term));
    }
    out += terms + (has_speed ? "*" + std::string(speed) : "");
  }
  return out;
}

Result<Duration> ReadTimeLimit(std::string_view text) {
  const std::string word = ToLower(Trim(text));
  if (word == "none" || word == "unlimited" || word == "infinite") return Duration(0);
  return ParseDuration(text, 1min);
}

Result<ArraySpec> ReadArray(std::string_view text) {
  ArraySpec array;
  std::string_view ranges = Trim(text);
  if (const auto percent = ranges.find('%'); percent != std::string_view::npos) {
    const auto cap = ReadCount(ranges.substr(percent + 1), 1, 1'000'000, "elements at once");
    if (!cap) return InvalidArgument(Quoted(text) + ": after '%': " + cap.error().message);
    array.at_once = *cap;
    ranges = ranges.substr(0, percent);
  }
  // The error shows the text, so it must be printable.
  if (ranges.size() > 4096 || HasControlCharacter(ranges) || ranges.find("--") != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + ": write indices such as 0-9, 1,3,7 or 0-15:4");
  }
  DIVVY_TRY(array.indices, IndexRanges::Parse(ranges, "indices"));
  return array;
}

Result<WarnSignal> ReadWarnSignal(std::string_view text) {
  WarnSignal warn;
  warn.before = 60s;
  std::string_view rest = Trim(text);
  if (const auto colon = rest.find(':'); colon != std::string_view::npos && colon <= 2) {
    for (const char flag : rest.substr(0, colon)) {
      if (flag != 'B' && flag != 'b' && flag != 'R' && flag != 'r') {
        return InvalidArgument(Quoted(text) +
                               ": only B (signal the batch script only) may come before ':', as in B:USR1@300");
      }
      if (flag == 'B' || flag == 'b') warn.batch_only = true;
    }
    rest = rest.substr(colon + 1);
  }
  if (const auto at = rest.find('@'); at != std::string_view::npos) {
    const auto before = ParseDuration(rest.substr(at + 1), 1s);
    if (!before) return InvalidArgument(Quoted(text) + ": after '@': " + before.error().message);
    warn.before = *before;
    rest = rest.substr(0, at);
  }
  DIVVY_TRY(warn.signal, ParseSignal(rest));
  return warn;
}

Result<PlacementStrategy> ReadPlacement(std::string_view text) {
  for (const PlacementStrategy placement :
       {PlacementStrategy::kBest, PlacementStrategy::kSequential, PlacementStrategy::kRandom, PlacementStrategy::kPack,
        PlacementStrategy::kSpread}) {
    if (EqualsIgnoringCase(text, Name(placement))) return placement;
  }
  return InvalidArgument(Quoted(text) + " is not a placement: expected best, sequential, random, pack or spread");
}

Result<bool> ReadOpenMode(std::string_view text) {
  if (EqualsIgnoringCase(text, "append")) return true;
  if (EqualsIgnoringCase(text, "truncate")) return false;
  return InvalidArgument(Quoted(text) + " is not a file mode: expected append or truncate");
}

Result<std::string> ReadLabel(std::string_view text, std::size_t longest) {
  const std::string_view trimmed = Trim(text);
  if (trimmed.empty()) return InvalidArgument("the value is empty; omit the option instead");
  if (trimmed.size() > longest)
    return InvalidArgument(Quoted(text) + " is longer than " + std::to_string(longest) + " bytes");
  if (HasControlCharacter(trimmed))
    return InvalidArgument(Quoted(text) + " contains a control character; write a single line of plain text");
  return std::string(trimmed);
}

Result<std::string> ReadPath(std::string_view text) {
  if (text.empty()) return InvalidArgument("the path is empty; omit the option instead");
  if (text.size() > kLongestPath) return InvalidArgument(Quoted(text) + " is too long; a path has at most 4096 bytes");
  if (HasControlCharacter(text))
    return InvalidArgument(Quoted(text) + " contains a control character; write a single line of plain text");
  return std::string(text);
}

Result<std::string> ReadDirectory(std::string_view text, const ParseContext& around) {
  DIVVY_TRY(std::string path, ReadPath(text));
  if (path == "~" || path.starts_with("~/")) path = around.home + path.substr(1);
  if (path.starts_with('/') || around.directory.empty()) return path;
  return around.directory + (around.directory.ends_with('/') ? "" : "/") + path;
}

Result<std::string> ReadNamedFile(std::string_view path, const ParseContext& around) {
  DIVVY_TRY(const std::string full, ReadDirectory(path, around));
  if (!around.read_file) return FailedPrecondition("the file " + Quoted(path) + " cannot be read here");
  return around.read_file(full);
}

Result<std::string> ReadEnvironmentPair(std::string_view text) {
  const auto equals = text.find('=');
  if (equals == std::string_view::npos) return InvalidArgument(Quoted(text) + " has no '='; write NAME=VALUE");
  if (!IsVariableName(text.substr(0, equals))) {
    return InvalidArgument(Quoted(text.substr(0, equals)) +
                           " is not a valid variable name; use letters, digits and '_', and do not begin with a digit");
  }
  if (text.size() > 128 * 1024) return InvalidArgument(Quoted(text) + " is too long; a variable has at most 128 KiB");
  return std::string(text);
}

void SetEnvironment(JobSpec& spec, const std::string& pair) {
  const std::string name = pair.substr(0, pair.find('=') + 1);
  std::erase_if(spec.extra_environment, [&](const std::string& other) { return other.starts_with(name); });
  spec.extra_environment.push_back(pair);
}

namespace {

/// "OMP.PLACES=2" is valid as well: shells cannot read the variable, but other programs can.
Result<std::string> ReadExportedPair(std::string_view text) {
  const std::string_view name = text.substr(0, text.find('='));
  std::string plain(name);
  std::ranges::replace(plain, '.', '_');
  DIVVY_TRY(const std::string pair, ReadEnvironmentPair(plain + std::string(text.substr(name.size()))));
  return std::string(name) + pair.substr(name.size());
}

}  // namespace

Status ApplyExport(std::string_view text, JobSpec& spec) {
  std::string kept;
  std::vector<std::string> pairs;
  for (std::string_view part : Split(text, ',')) {
    part = Trim(part);
    if (part.empty()) return InvalidArgument(Quoted(text) + " has an empty part; write ALL, NONE, or NAME,NAME=VALUE");
    if (part.find('=') != std::string_view::npos) {
      DIVVY_TRY(std::string pair, ReadExportedPair(part));
      pairs.push_back(std::move(pair));
      continue;
    }
    if (!IsVariableName(part))
      return InvalidArgument(Quoted(part) + " is not a valid variable name; write ALL, NONE, or NAME,NAME=VALUE");
    kept += (kept.empty() ? "" : ",") + std::string(part);
  }
  const bool is_none = kept == "NONE" || kept == "NIL";
  if (!is_none && ("," + kept + ",").find(",NONE,") != std::string::npos) {
    return InvalidArgument(Quoted(text) + ": NONE exports no variables, so it cannot be combined with names");
  }
  for (const std::string& pair : pairs) SetEnvironment(spec, pair);
  spec.labels[std::string(kExportLabel)] = is_none ? "NONE" : kept;
  return {};
}

void CompleteCapture(JobSpec& spec) {
  const auto label = spec.labels.find(std::string(kExportLabel));
  if (label == spec.labels.end()) return;
  const auto names = Split(label->second, ',');
  if (std::ranges::find(names, "ALL") != names.end()) return;
  // Variables that every process needs, whatever --export says. Slurm keeps them too.
  constexpr std::string_view kAlways[] = {"HOME", "USER", "LOGNAME", "SHELL", "PATH"};
  std::erase_if(spec.capture.environment, [&](const std::string& pair) {
    const std::string_view name = std::string_view(pair).substr(0, pair.find('='));
    return std::ranges::find(kAlways, name) == std::end(kAlways) && std::ranges::find(names, name) == names.end();
  });
}

bool NamesExports(const JobSpec& spec) { return spec.labels.contains(std::string(kExportLabel)); }

void AddNote(JobSpec& spec, std::string_view note) {
  if (std::ranges::find(spec.notes, note) == spec.notes.end()) spec.notes.emplace_back(note);
}

}  // namespace divvy::dialect
