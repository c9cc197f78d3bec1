#include "dialect/options/portion_options.h"

#include <algorithm>
#include <string>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "model/job_record.h"

namespace divvy::dialect {
namespace {

constexpr std::string_view kSharedLabel = "divvy.shared";

// "0.25", "0.8", "1", "1.0"; nullopt for anything else, and for steps finer than a ten-thousandth.
std::optional<GpuShare> ParseParts(std::string_view text) {
  const auto point = text.find('.');
  const std::string_view whole = text.substr(0, point);
  std::string_view rest = point == std::string_view::npos ? std::string_view() : text.substr(point + 1);
  if (whole.empty() && rest.empty()) return std::nullopt;
  while (rest.size() > 1 && rest.back() == '0') rest.remove_suffix(1);
  if (whole.size() > 3 || rest.size() > 4) return std::nullopt;
  std::int32_t parts = 0;
  for (const char c : whole) {
    if (c < '0' || c > '9') return std::nullopt;
    parts = parts * 10 + (c - '0');
  }
  parts *= GpuShare::kWhole;
  std::int32_t digit = GpuShare::kWhole / 10;
  for (const char c : rest) {
    if (c < '0' || c > '9') return std::nullopt;
    parts += digit * (c - '0');
    digit /= 10;
  }
  return GpuShare(parts);
}

/// The fraction that the user may have meant by "50%", "1/2" or "0,5"; zero if unknown.
GpuShare MeantParts(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  std::int64_t parts = 0;
  if (trimmed.ends_with('%')) {
    parts = ParseInteger(trimmed.substr(0, trimmed.size() - 1)).value_or(0) * (GpuShare::kWhole / 100);
  } else if (const auto slash = trimmed.find('/'); slash != std::string_view::npos) {
    const std::int64_t over = ParseInteger(trimmed.substr(0, slash)).value_or(0);
    const std::int64_t under = ParseInteger(trimmed.substr(slash + 1)).value_or(0);
    if (over > 0 && over < under && under <= GpuShare::kWhole) parts = over * GpuShare::kWhole / under;
  } else if (const auto comma = trimmed.find(','); comma != std::string_view::npos) {
    std::string with_point(trimmed);
    with_point[comma] = '.';
    parts = ParseParts(with_point).value_or(GpuShare()).ten_thousandths();
  }
  return parts > 0 && parts < GpuShare::kWhole ? GpuShare(static_cast<std::int32_t>(parts)) : GpuShare();
}

/// Parses a limit or a compute share, which may be 1.
Result<GpuShare> ReadParts(std::string_view text) {
  const auto parts = ParseParts(Trim(text));
  if (parts && *parts > GpuShare() && *parts <= GpuShare(GpuShare::kWhole)) return *parts;
  const GpuShare meant = MeantParts(text);
  return InvalidArgument(Quoted(text) +
                         " is not a GPU fraction; write a number above 0 and at most 1, in steps of 0.0001, such as " +
                         (meant > GpuShare() ? PartsText(meant) : "0.25"));
}

/// "0.25x2" for 2x0.25; empty if the text does not have this form.
std::string TurnedRound(std::string_view text) {
  const std::string_view trimmed = Trim(text);
  const auto times = trimmed.find_first_of("xX");
  if (times == std::string_view::npos) return "";
  const auto parts = ParseParts(Trim(trimmed.substr(0, times)));
  const auto gpus = ParseInteger(Trim(trimmed.substr(times + 1)));
  const bool is_part = parts && *parts > GpuShare() && *parts < GpuShare(GpuShare::kWhole);
  if (!is_part || !gpus || *gpus < 1 || *gpus > GpuSet::kCapacity) return "";
  return std::to_string(*gpus) + "x" + PartsText(*parts);
}

Error NoGpus(std::string_view text) {
  const GpuShare meant = MeantParts(text);
  return InvalidArgument(Quoted(text) +
                         " is not a number of GPUs; write whole GPUs (2), a range (2..8), a fraction of one GPU (" +
                         (meant > GpuShare() ? PartsText(meant) : "0.25") + ") or of several GPUs (2x0.5)");
}

// "0.3", "0.3:1.0".
Status ApplyCompute(std::string_view text, GpuPortion& portion) {
  const auto colon = text.find(':');
  DIVVY_TRY(const GpuShare request, ReadParts(text.substr(0, colon)));
  GpuShare limit = request;
  if (colon != std::string_view::npos) {
    DIVVY_TRY(limit, ReadParts(text.substr(colon + 1)));
  }
  if (limit < request) {
    return InvalidArgument(Quoted(text) + ": the limit is below the request; write it as --compute " +
                           PartsText(limit) + ":" + PartsText(request));
  }
  portion.compute = request;
  portion.compute_limit = limit;
  return {};
}

Result<Bytes> ReadShareOfMemory(std::string_view text) {
  DIVVY_TRY(const Bytes size, ParseSize(text, kMebibyte));
  if (size >= kSmallestPart) return size;
  return InvalidArgument(Quoted(text) + " of GPU memory is too little; request 512M or more");
}

bool IsShared(const JobSpec& spec) { return spec.labels.contains(std::string(kSharedLabel)); }

bool SaysMoreOfPortion(const GpuPortion& portion) {
  return portion.limit > GpuShare() || portion.memory_limit > Bytes() || portion.compute > GpuShare() ||
         portion.idle_park > Duration(0) || portion.uses_mps;
}

std::string FirstOptionOf(const GpuPortion& portion) {
  if (portion.limit > GpuShare()) return "--gpu-limit " + PartsText(portion.limit);
  if (portion.memory_limit > Bytes()) return "--gpu-memory-limit " + FormatSize(portion.memory_limit);
  if (portion.compute > GpuShare()) return "--compute " + PartsText(portion.compute);
  if (portion.idle_park > Duration(0)) return "--idle-park";
  return "--mps";
}

Status CheckSlice(const JobSpec& spec) {
  const Request& request = spec.request;
  if (request.slice.empty()) return {};
  if (request.is_portioned() || SaysMoreOfPortion(request.portion)) {
    return InvalidArgument(
        "--slice " + request.slice +
        " requests a MIG instance, which cannot be divided or borrow; omit --gpus and the options for GPU fractions");
  }
  if (request.gpus != 1 || request.is_elastic() || request.is_gang()) {
    return InvalidArgument("--slice " + request.slice +
                           " requests one MIG instance; omit --gpus and --nodes, or use an array for several");
  }
  if (request.gpu_memory > Bytes()) {
    return InvalidArgument(
        "--slice " + request.slice +
        " already sets the GPU memory; omit --gpu-memory, or write --slice '>=" + FormatSize(request.gpu_memory) + "'");
  }
  return {};
}

Status CheckAlone(const Request& request) {
  if (request.is_gang()) {
    return InvalidArgument("--gpus " + GpuCountText(request) +
                           ": GPU fractions need a job on one node; request whole GPUs, or omit --nodes, the other "
                           "components and --gpus-per-task");
  }
  return {};
}

}  // namespace

Result<std::string> ReadSlice(std::string_view value) {
  const std::string text = ToLower(Trim(value));
  if (text.starts_with(">=")) {
    DIVVY_TRY(const Bytes size, ReadShareOfMemory(Trim(Trim(value).substr(2))));
    constexpr std::int64_t kGibibyte = std::int64_t{1} << 30;
    const bool is_whole = size.count() % kGibibyte == 0;
    const std::int64_t mebibytes = (size.count() + kMebibyte - 1) / kMebibyte;
    return ">=" + (is_whole ? std::to_string(size.count() / kGibibyte) + "G" : std::to_string(mebibytes) + "M");
  }
  std::string_view rest = text;
  const bool has_compute = !rest.empty() && rest.front() >= '1' && rest.front() <= '7' && rest.substr(1, 1) == "g";
  if (has_compute) rest.remove_prefix(2);
  const bool has_memory = rest.size() > 3 && rest.front() == '.' && rest.ends_with("gb") &&
                          ParseInteger(rest.substr(1, rest.size() - 3)).value_or(0) > 0;
  if (has_compute && (rest.empty() || text == "1g-wide" || has_memory)) return text;
  return InvalidArgument(Quoted(value) +
                         " is not a MIG profile; write one such as 1g.18gb ('slices' in divvy gpus --json lists them), "
                         "1g for any GPU model, or '>=16G' for the smallest with that much memory");
}

Status ApplyGpus(std::string_view text, Request& request) {
  const std::string_view trimmed = Trim(text);
  const bool is_portion = trimmed.find_first_of(".xX") != std::string_view::npos &&
                          trimmed.find("..") == std::string_view::npos &&
                          trimmed.find_first_of("0123456789") != std::string_view::npos &&
                          trimmed.find_first_not_of("0123456789.xX") == std::string_view::npos;
  if (!is_portion) {
    const Result<GpuRange> read = ReadGpuRange(text);
    // Some mistakes have errors of their own: "2..", "h100:2", "5000".
    const bool is_other_slip = trimmed.find("..") != std::string_view::npos ||
                               trimmed.find(':') != std::string_view::npos || ParseInteger(trimmed);
    if (!read && !is_other_slip) return NoGpus(text);
    DIVVY_TRY(const GpuRange range, read);
    request.portion.request = GpuShare();
    request.gpus = range.least;
    request.max_gpus = range.most;
    return {};
  }
  const auto times = trimmed.find_first_of("xX");
  if (times == 0 || times + 1 == trimmed.size()) {
    return InvalidArgument(Quoted(text) +
                           ": write the number of GPUs before the x and the fraction of each after it: 2x0.5");
  }
  if (const std::string meant = TurnedRound(text); !meant.empty())
    return InvalidArgument(Quoted(text) +
                           ": write the number of GPUs before the x and the fraction of each after it: " + meant);
  int gpus = 1;
  if (times != std::string_view::npos) {
    DIVVY_TRY(gpus, ReadCount(trimmed.substr(0, times), 1, 64, "GPUs"));
  }
  const std::string_view each = times == std::string_view::npos ? trimmed : trimmed.substr(times + 1);
  const auto parts = ParseParts(each);
  // 2.0 means two whole GPUs; 1.7 is not possible.
  const bool is_whole = parts && *parts > GpuShare() && parts->ten_thousandths() % GpuShare::kWhole == 0;
  if (is_whole && (times == std::string_view::npos || *parts == GpuShare(GpuShare::kWhole))) {
    request.portion.request = GpuShare();
    request.gpus = gpus * parts->ten_thousandths() / GpuShare::kWhole;
    request.max_gpus = 0;
    return {};
  }
  if (parts && *parts > GpuShare(GpuShare::kWhole)) {
    const int whole = parts->ten_thousandths() / GpuShare::kWhole;
    return InvalidArgument(
        Quoted(text) + ": a GPU fraction is below 1; for more than one GPU request whole GPUs (--gpus " +
        std::to_string(whole + 1) + ") or the same fraction of each (--gpus " + std::to_string(whole + 1) + "x" +
        PartsText(GpuShare((parts->ten_thousandths() + whole) / (whole + 1))) + ")");
  }
  if (!parts || *parts == GpuShare()) {
    return InvalidArgument(
        Quoted(text) + ": " + Quoted(each) +
        " is not a GPU fraction; write a number above 0 and below 1, in steps of 0.0001, such as 0.25 or 2x0.5");
  }
  request.portion.request = *parts;
  request.gpus = gpus;
  request.max_gpus = 0;
  return {};
}

void AddPortionOptions(std::vector<Option>& table, JobSpec& spec) {
  const auto add = [&](std::string_view name, Takes takes, std::string_view value, std::string_view help,
                       std::function<Status(std::string_view)> apply) {
    table.push_back({name, 0, takes, value, help, std::move(apply)});
  };
  add("gpu-limit", Takes::kValue, "FRACTION",
      "largest GPU fraction that the job may use while others leave it idle, such as 0.8 (default: the fraction of "
      "--gpus)",
      Reads(spec.request.portion.limit, ReadParts));
  add("gpu-memory-limit", Takes::kValue, "SIZE",
      "largest GPU memory that the job may use while others leave it idle (default: the request of --gpu-memory)",
      Reads(spec.request.portion.memory_limit, ReadShareOfMemory));
  add("shared", Takes::kNothing, "", "share the GPUs: use only --gpu-memory of each and leave the rest to other jobs",
      [&spec](std::string_view) -> Status {
        spec.labels[std::string(kSharedLabel)] = "1";
        return {};
      });
  add("compute", Takes::kValue, "FRACTION[:LIMIT]",
      "share of the GPU's time, and its limit while others leave it idle: 0.3 or 0.3:1.0 (default: as the memory)",
      [&spec](std::string_view value) { return ApplyCompute(value, spec.request.portion); });
  add("idle-park", Takes::kValue, "TIME",
      "park the job after this time without GPU use: its GPU memory moves to the host, and its next GPU call wakes it",
      [&spec](std::string_view value) -> Status {
        DIVVY_TRY(const Duration idle, ParseDuration(value, std::chrono::minutes(1)));
        if (idle >= std::chrono::seconds(1)) {
          spec.request.portion.idle_park = idle;
          return {};
        }
        return InvalidArgument(Quoted(value) + " is too short; write 1s or more");
      });
  add("mps", Takes::kNothing, "",
      "use the GPU concurrently with its other tenants through NVIDIA MPS, if available, instead of taking turns",
      Sets(spec.request.portion.uses_mps));
  add("slice", Takes::kValue, "PROFILE|>=SIZE",
      "MIG instance instead of a whole GPU: 1g.18gb, 1g (on any GPU model), or >=16G for the smallest with that much "
      "memory",
      Reads(spec.request.slice, ReadSlice));
}

void CompletePortion(JobSpec& spec) {
  Request& request = spec.request;
  if (!request.slice.empty() && request.gpus == 0) request.gpus = 1;
  // --gpu-memory 0 with whole GPUs: any GPU will do. Without GPUs, CheckPortion handles it.
  if (request.gpu_memory < Bytes() && request.gpus > 0) request.gpu_memory = Bytes();
  if (request.gpu_memory <= Bytes() || request.portion.request > GpuShare()) return;
  const bool is_part = IsShared(spec) || request.portion.memory_limit > Bytes() || request.gpus == 0;
  if (!is_part) return;
  if (request.gpus == 0) request.gpus = 1;
  request.portion.memory = std::exchange(request.gpu_memory, Bytes());
}

Status CheckPortion(const JobSpec& spec) {
  const Request& request = spec.request;
  const GpuPortion& portion = request.portion;
  DIVVY_CHECK(CheckSlice(spec));
  if (!portion.any()) {
    if (SaysMoreOfPortion(portion)) {
      const std::string option = FirstOptionOf(portion);
      if (request.gpus == 0) return InvalidArgument(option + " needs a GPU fraction; add --gpus 0.25");
      return InvalidArgument(option + " needs a GPU fraction, but --gpus " + GpuCountText(request) +
                             " requests whole GPUs; request a fraction: --gpus " +
                             (request.gpus > 1 ? std::to_string(request.gpus) + "x" : "") + "0.5");
    }
    if (IsShared(spec)) return InvalidArgument("--shared needs --gpu-memory SIZE, the memory to request on each GPU");
    return {};
  }
  DIVVY_CHECK(CheckAlone(request));
  if (request.gpus > kMostPortionedGpus) {
    const std::string most = std::to_string(kMostPortionedGpus);
    return InvalidArgument("--gpus " + GpuCountText(request) + ": a job can have fractions of at most " + most +
                           " GPUs; request fractions of " + most + " GPUs or fewer, or whole GPUs: --gpus " +
                           std::to_string(request.gpus));
  }
  if (request.is_elastic())
    return InvalidArgument("--gpus " + std::to_string(request.gpus) + ".." + std::to_string(request.max_gpus) +
                           " requests a range of whole GPUs; for fractions write one number of GPUs: --gpus " +
                           std::to_string(request.gpus) + "x0.5");
  if (portion.request > GpuShare() && request.gpu_memory > Bytes()) {
    return InvalidArgument("--gpus " + GpuCountText(request) + " and --gpu-memory " + FormatSize(request.gpu_memory) +
                           " both set the request; give only one of them");
  }
  if (portion.request > GpuShare() && portion.memory_limit > Bytes()) {
    return InvalidArgument("--gpu-memory-limit " + FormatSize(portion.memory_limit) +
                           " is a memory limit, but --gpus " + GpuCountText(request) +
                           " requests a fraction; write --gpu-limit FRACTION, or --gpu-memory SIZE instead of --gpus");
  }
  if (portion.is_by_memory() && portion.memory < kSmallestPart) {
    return InvalidArgument("--gpu-memory " + FormatSize(portion.memory) +
                           " of GPU memory is too little; request 512M or more");
  }
  if (portion.is_by_memory() && portion.limit > GpuShare()) {
    return InvalidArgument("--gpu-limit is a fraction, but the job requests memory; write --gpu-memory-limit SIZE");
  }
  if (portion.request > GpuShare() && portion.limit > GpuShare() && portion.limit < portion.request) {
    return InvalidArgument("--gpu-limit " + PartsText(portion.limit) + " is below the request (--gpus " +
                           GpuCountText(request) + "); the limit must be at least the request: --gpu-limit " +
                           PartsText(portion.request));
  }
  if (portion.is_by_memory() && portion.memory_limit > Bytes() && portion.memory_limit < portion.memory) {
    return InvalidArgument("--gpu-memory-limit " + FormatSize(portion.memory_limit) +
                           " is below the request (--gpu-memory " + FormatSize(portion.memory) +
                           "); the limit must be at least the request");
  }
  if (portion.uses_mps && portion.idle_park > Duration(0)) {
    return InvalidArgument(
        "--mps and --idle-park cannot be combined: a job that uses MPS cannot be parked; omit one of them");
  }
  return {};
}

std::string PortionReading(const Request& request) {
  const GpuPortion& portion = request.portion;
  if (!request.slice.empty()) return "a MIG instance " + request.slice + " of a GPU";
  if (!portion.any()) return "";
  const bool may_borrow =
      portion.is_by_memory() ? portion.memory_limit > portion.memory : portion.limit > portion.request;
  const std::string most = portion.is_by_memory() ? FormatSize(portion.memory_limit) : PartsText(portion.limit);
  std::string out = portion.is_by_memory() ? FormatSize(portion.memory) : PartsText(portion.request);
  out += request.gpus > 1 ? " of each of " + std::to_string(request.gpus) + " GPUs" : " of a GPU";
  if (!request.gpu_type.empty()) out += " (" + request.gpu_type + ")";
  if (may_borrow) out += ", up to " + most;
  if (portion.compute > GpuShare()) {
    out += ", " + PartsText(portion.compute);
    if (portion.compute_limit > portion.compute) out += " to " + PartsText(portion.compute_limit);
    out += " of its time";
  }
  if (portion.idle_park > Duration(0)) out += ", parked after " + FormatDuration(portion.idle_park) + " idle";
  if (portion.uses_mps) out += ", through MPS";
  return out;
}

}  // namespace divvy::dialect
