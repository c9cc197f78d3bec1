// Parses the values of Slurm's options, by the rules in the man pages of Slurm 22.05 to 25.11. Where Slurm only reports
// "Invalid generic resource (gres) specification", these errors say what to write instead.
#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_request.h"

namespace divvy::dialect::slurm {
namespace {

constexpr std::int64_t kMostGpus = 1'000'000;

bool IsNumber(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool IsTypeName(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '+';
  });
}

/// A corrected form of the words between colons: the types joined with '_', then one count.
std::string RepairedGpuSpec(const std::vector<std::string_view>& parts) {
  std::string type;
  std::string count = "1";
  for (const std::string_view part : parts) {
    if (IsNumber(part)) {
      count = std::string(part);
    } else if (IsTypeName(part)) {
      type += (type.empty() ? "" : "_") + std::string(part);
    }
  }
  return type.empty() ? count : type + ":" + count;
}

/// The part after "gpu:" (or the whole of --gpus): "2", "a100", "a100:2". `prefix` is the prefix for suggested fixes.
Result<GpuOption> ParseTypeAndCount(std::string_view text, std::string_view prefix) {
  // "(S:0-1)" after the count names sockets. Ignore it, because the sockets follow from the GPUs that divvy chooses.
  if (const auto bracket = text.find('('); bracket != std::string_view::npos && text.ends_with(')')) {
    text = text.substr(0, bracket);
  }
  const std::vector<std::string_view> parts = Split(text, ':');
  const std::string repair = std::string(prefix) + RepairedGpuSpec(parts);
  for (const std::string_view part : parts) {
    if (part.empty()) return InvalidArgument("a part next to a colon is empty; write " + repair);
    if (part.front() == '-' && IsNumber(part.substr(1)))
      return InvalidArgument("a count must not be below zero: " + std::string(part));
    if (part.find('.') != std::string_view::npos && ParseNumber(part).has_value()) {
      return InvalidArgument("Slurm counts whole GPUs, not " + std::string(part) +
                             "; for a GPU fraction, use divvy submit --gpus " + std::string(part));
    }
  }
  if (parts.size() > 2 || (parts.size() == 2 && IsNumber(parts[0]) && !IsNumber(parts[1]))) {
    if (IsNumber(parts.back())) return InvalidArgument("the GPU type must be one word; write " + repair);
    return InvalidArgument("the count must come last; write " + repair);
  }
  GpuOption ask;
  std::string_view count = "1";
  if (parts.size() == 2) {
    ask.type = parts[0];
    count = parts[1];
    if (IsNumber(parts[0]))
      return InvalidArgument("there are two counts; write " + std::string(prefix) + std::string(parts[1]));
  } else if (IsNumber(parts[0])) {
    count = parts[0];
  } else {
    ask.type = parts[0];
  }
  // A single letter is a mistake, because nearly every model's name contains it.
  if (!ask.type.empty() && (!IsTypeName(ask.type) || ask.type.size() < 2)) {
    return InvalidArgument(Quoted(ask.type) + " is not a GPU type; write " + std::string(prefix) + "TYPE:COUNT");
  }
  if (!IsNumber(count)) {
    return InvalidArgument("the count '" + std::string(count) + "' is not a whole number; write " +
                           std::string(prefix) + ask.type + ":1");
  }
  DIVVY_TRY(ask.count, ParseCount(count, 0, kMostGpus));
  if (const std::string profile = MigProfile(ask.type); !profile.empty()) {
    ask.note = "the job gets a whole GPU for each MIG instance " + profile;
    ask.type = ask.type.substr(0, ask.type.find(profile));
    while (!ask.type.empty() && (ask.type.back() == '_' || ask.type.back() == '-')) ask.type.pop_back();
  }
  return ask;
}

/// For gres names of GPU slices (shard, mps): any number of slices gives one whole GPU.
GpuOption WholeInsteadOfShare(std::string_view item) {
  return {.count = 1, .type = "", .note = std::string(item) + ": the job gets a whole GPU"};
}

/// One element of --gres or of --tres-per-task's gres/ items.
Status ReadGresItem(std::string_view item, GresOption& ask) {
  std::string_view rest = item;
  if (rest.starts_with("gres/") || rest.starts_with("gres:")) rest.remove_prefix(5);
  const auto end = rest.find_first_of(":=");
  const std::string name = ToLower(rest.substr(0, end));
  const bool has_rest = end != std::string_view::npos;
  const std::string_view value = has_rest ? rest.substr(end + 1) : std::string_view();
  if (name == "none") return {};
  if (IsNumber(name)) {
    return InvalidArgument("the resource's name is missing; write --gres=gpu:" + name);
  }
  if (name.empty()) return InvalidArgument("an element has no name; write --gres=gpu:1");
  if (name == "shard" || name == "mps") {
    const GpuOption share = WholeInsteadOfShare(item);
    ask.notes.push_back(share.note);
    if (!ask.gpus) ask.gpus = share;
    return {};
  }
  if (name != "gpu") {
    constexpr std::array<std::string_view, 3> kKnown = {"gpu", "shard", "none"};
    const std::string_view near = name == "gpus" ? "gpu" : Nearest(name, kKnown);
    if (near == "gpu") {
      return InvalidArgument(Quoted(name) + " is not a resource; write --gres=gpu" +
                             (has_rest ? ":" + std::string(value) : ""));
    }
    ask.notes.push_back(name + ": ignored, because divvy knows only GPUs as resources");
    return {};
  }
  GpuOption one{.count = 1, .type = "", .note = ""};
  if (has_rest) {
    std::string colons(value);
    std::ranges::replace(colons, '=', ':');
    DIVVY_TRY(one, ParseTypeAndCount(colons, "--gres=gpu:"));
  }
  if (!one.note.empty()) ask.notes.push_back(std::string(item) + ": " + one.note);
  if (!ask.gpus) {
    ask.gpus = one;
    return {};
  }
  if (ask.gpus->type != one.type) ask.gpus->other_type = one.type;
  ask.gpus->count += one.count;
  return {};
}

}  // namespace

Result<std::int64_t> ParseCount(std::string_view text, std::int64_t least, std::int64_t most) {
  if (text.empty()) return InvalidArgument("the number is empty");
  if (text.front() == '=') {
    return InvalidArgument(Quoted(text) + " begins with '='; write a space or nothing between the option letter and " +
                           std::string(text.substr(1)));
  }
  if (text.find('$') != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + ": #SBATCH lines do not expand variables; write the number");
  }
  const auto number = ParseInteger(text);
  if (!number) return InvalidArgument(Quoted(text) + " is not a whole number");
  if (*number < least) return InvalidArgument(std::to_string(*number) + " is below " + std::to_string(least));
  if (*number > most) return InvalidArgument(std::to_string(*number) + " is above " + std::to_string(most));
  return *number;
}

Result<GpuOption> ParseGpuCount(std::string_view text) {
  if (text.empty()) return InvalidArgument("the number of GPUs is empty; write 1, or TYPE:1");
  if (text.find('$') != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + ": #SBATCH lines do not expand variables; write the number");
  }
  GpuOption sum;
  bool is_first = true;
  for (std::string_view item : Split(text, ',')) {
    item = Trim(item);
    if (item.starts_with("gpu:")) item.remove_prefix(4);
    DIVVY_TRY(const GpuOption one, ParseTypeAndCount(item, ""));
    if (is_first) {
      sum = one;
    } else {
      if (one.type != sum.type) sum.other_type = one.type;
      sum.count += one.count;
    }
    is_first = false;
  }
  return sum;
}

Result<GresOption> ParseGres(std::string_view text) {
  if (Trim(text).empty()) return InvalidArgument("the resource is empty; write --gres=gpu:1");
  if (text.find('$') != std::string_view::npos) {
    return InvalidArgument(Quoted(text) + ": #SBATCH lines do not expand variables; write --gres=gpu:1");
  }
  GresOption ask;
  for (const std::string_view item : Split(text, ',')) DIVVY_CHECK(ReadGresItem(Trim(item), ask));
  return ask;
}

Result<TresOption> ParseTres(std::string_view text) {
  if (Trim(text).empty()) return InvalidArgument("the resource is empty; write gres/gpu:1");
  TresOption ask;
  GresOption gres;
  for (std::string_view item : Split(text, ',')) {
    item = Trim(item);
    const auto end = item.find_first_of(":=");
    const std::string name = ToLower(item.substr(0, end));
    if (name == "cpu") {
      if (end == std::string_view::npos) return InvalidArgument("'cpu' needs a number; write cpu=1");
      DIVVY_TRY(ask.cpus, ParseCount(item.substr(end + 1), 1, 10'000));
    } else if (name.starts_with("gres")) {
      DIVVY_CHECK(ReadGresItem(item, gres));
    } else if (name == "gpu") {
      return InvalidArgument("GPUs are requested as gres/gpu; write gres/" + std::string(item));
    } else {
      ask.notes.push_back(std::string(item) + ": ignored, because it is neither CPUs nor GPUs");
    }
  }
  ask.gpus = gres.gpus;
  ask.notes.insert(ask.notes.end(), gres.notes.begin(), gres.notes.end());
  return ask;
}

Result<std::optional<GpuOption>> GpusOfTask(std::string_view option, std::string_view value,
                                            std::vector<std::string>* notes) {
  if (option == "gpus-per-task") {
    DIVVY_TRY(const GpuOption ask, ParseGpuCount(value));
    if (notes != nullptr && !ask.note.empty()) notes->push_back(std::string(value) + ": " + ask.note);
    return std::optional<GpuOption>(ask);
  }
  DIVVY_TRY(const TresOption ask, ParseTres(value));
  if (notes != nullptr) notes->insert(notes->end(), ask.notes.begin(), ask.notes.end());
  return ask.gpus;
}

Status CheckGpuBind(std::string_view text) {
  std::string_view rest = text;
  for (const std::string_view word : {"verbose,", "v,", "quiet,", "q,"}) {
    if (rest.starts_with(word)) rest.remove_prefix(word.size());
  }
  const auto colon = rest.find(':');
  const std::string_view kind = rest.substr(0, colon);
  const std::string_view value = colon == std::string_view::npos ? std::string_view() : rest.substr(colon + 1);
  const auto all_are = [&](std::string_view digits, bool has_prefix) {
    const std::vector<std::string_view> items = Split(value, ',');
    return std::ranges::all_of(items, [&](std::string_view item) {
      item = item.substr(0, item.find('*'));  // "0*4" is four times 0.
      if (has_prefix && item.starts_with("0x")) item.remove_prefix(2);
      return !item.empty() && item.find_first_not_of(digits) == std::string_view::npos;
    });
  };
  const bool is_plain = kind == "closest" || kind == "none" || kind == "single" || kind == "verbose" || kind == "quiet";
  if (is_plain && colon == std::string_view::npos) return {};
  const bool is_map = kind == "map_gpu" || kind == "map", is_mask = kind == "mask_gpu" || kind == "mask";
  if ((kind == "single" || kind == "per_task" || is_map) && all_are("0123456789", false)) return {};
  if (is_mask && all_are("0123456789abcdefABCDEF", true)) return {};
  if (const auto wrong = value.find_first_not_of(is_mask ? "0123456789abcdefABCDEFx,*" : "0123456789,*");
      (is_map || is_mask) && wrong != std::string_view::npos)
    return InvalidArgument("Failed to validate " + std::string(value) + ", offending character is " + value[wrong] +
                           "; expected " + (is_mask ? "masks: mask_gpu:0x1,0x2" : "numbers of GPUs: map_gpu:0,1"));
  return InvalidArgument("Invalid --gpu-bind argument: gpu:" + std::string(text) +
                         "; expected closest, none, single:N, per_task:N, map_gpu:0,1 or mask_gpu:0x1,0x2");
}

Status CheckGpuFreq(std::string_view text) {
  constexpr std::array<std::string_view, 4> kClocks = {"low", "medium", "high", "highm1"};
  for (const std::string_view item : Split(text, ',')) {
    const std::string_view value = item.substr(item.find('=') + 1);
    const std::string_view type = value.size() == item.size() ? std::string_view() : item.substr(0, item.find('='));
    const bool is_clock = IsNumber(value) || std::ranges::find(kClocks, value) != kClocks.end();
    if ((type.empty() && value == "verbose") || ((type.empty() || type == "memory") && is_clock)) continue;
    return InvalidArgument("Invalid --gpu-freq argument: gpu:" + std::string(text) +
                           "; expected low, medium, high, highm1 or MHz, then optionally ,memory=CLOCK and ,verbose");
  }
  return {};
}

Result<Distribution> ParseDistribution(std::string_view text) {
  const Error wrong = InvalidArgument(Quoted(text) +
                                      " is not valid: expected block, cyclic, arbitrary, plane=N or *, then optionally "
                                      ":block, :cyclic or :fcyclic for sockets and for cores, then ,pack or ,nopack");
  if (text.starts_with("plane=")) {
    DIVVY_TRY(const std::int64_t size, ParseCount(text.substr(6), 1, 1'000'000));
    return Distribution{.text = "plane", .plane_size = size};
  }
  const auto comma = text.find(',');
  const std::string_view pack = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
  if (comma != std::string_view::npos && pack != "pack" && pack != "nopack") return wrong;
  const std::string_view levels = text.substr(0, comma);
  if (levels == "pack" || levels == "nopack") {
    if (comma != std::string_view::npos) return wrong;
    return Distribution{.text = std::string(levels)};
  }
  const std::vector<std::string_view> parts = Split(levels, ':');
  if (parts.size() > 3) return wrong;
  // As in Slurm, the cores follow the sockets unless they are named.
  std::string out;
  std::string_view above = "cyclic";
  for (std::size_t level = 0; level < parts.size(); ++level) {
    std::string_view part = parts[level];
    if (part == "*") part = level == 0 ? "block" : above;
    const bool is_known = part == "block" || part == "cyclic" || (level == 0 ? part == "arbitrary" : part == "fcyclic");
    if (!is_known) return wrong;
    if (level > 0) above = part;
    out += (level > 0 ? ":" : "") + std::string(part);
  }
  return Distribution{.text = out + (pack.empty() ? "" : "," + std::string(pack))};
}

Result<NodeRange> ParseNodes(std::string_view text) {
  if (text.empty()) return InvalidArgument("the number of nodes is empty; write 1");
  const auto count = [](std::string_view part) -> Result<std::int64_t> {
    std::int64_t unit = 1;
    if (part.ends_with('k') || part.ends_with('K')) unit = 1024;
    if (part.ends_with('m') || part.ends_with('M')) unit = 1024 * 1024;
    if (unit > 1) part.remove_suffix(1);
    DIVVY_TRY(const std::int64_t number, ParseCount(part, 0, 1'000'000));
    return number * unit;
  };
  NodeRange range{.least = 0, .most = 0};
  for (const std::string_view item : Split(text, ',')) {
    const auto dash = item.find('-', 1);
    DIVVY_TRY(const std::int64_t first, count(item.substr(0, dash)));
    std::int64_t last = first;
    if (dash != std::string_view::npos) {
      std::string_view upper = item.substr(dash + 1);
      if (const auto step = upper.find(':'); step != std::string_view::npos) upper = upper.substr(0, step);
      DIVVY_TRY(last, count(upper));
    }
    if (last < first) {
      return InvalidArgument("the range " + std::string(item) + " is reversed; write " + std::to_string(last) + "-" +
                             std::to_string(first));
    }
    if (range.least == 0 || first < range.least) range.least = first;
    range.most = std::max(range.most, last);
  }
  if (range.most == 0) return InvalidArgument("a job needs at least one node; write 1");
  return range;
}

std::string MigProfile(std::string_view type) {
  // "<compute>g.<memory>gb", with "c" and "+me" variants: 1g.10gb, 1c.3g.40gb, 1g.10gb+me.
  for (std::size_t at = 0; at + 1 < type.size(); ++at) {
    if (std::isdigit(static_cast<unsigned char>(type[at])) == 0) continue;
    if (at > 0 && std::isalnum(static_cast<unsigned char>(type[at - 1])) != 0) continue;
    std::size_t end = at;
    while (end < type.size() && std::isdigit(static_cast<unsigned char>(type[end])) != 0) ++end;
    if (end + 1 >= type.size() || (type[end] != 'g' && type[end] != 'c') || type[end + 1] != '.') continue;
    return std::string(type.substr(at));
  }
  return "";
}

std::string GpuTypeTerms(std::string_view type) {
  std::vector<std::string> terms;
  std::string word;
  const auto finish = [&] {
    // Words that are left out of a GPU type: the maker and product line, which only some names of models contain.
    constexpr std::array<std::string_view, 5> kSilent = {"nvidia", "tesla", "geforce", "quadro", "gpu"};
    if (!word.empty() && std::ranges::find(kSilent, word) == kSilent.end()) {
      // The driver writes "rtx3090" as "RTX 3090".
      const bool is_glued = word.size() > 3 && (word.starts_with("rtx") || word.starts_with("gtx"));
      if (is_glued) terms.push_back(word.substr(0, 3));
      terms.push_back(is_glued ? word.substr(3) : word);
    }
    word.clear();
  };
  for (const char c : ToLower(type)) {
    if (c == '_' || c == '-' || c == ':' || c == ' ') {
      finish();
    } else {
      word += c;
    }
  }
  finish();
  return terms.empty() ? ToLower(type) : Join(terms, "&");
}

}  // namespace divvy::dialect::slurm
