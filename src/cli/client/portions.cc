// divvy resize, park, wake, move: actions on jobs with GPU fractions.
#include <optional>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "dialect/options/job_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/quantities.h"

namespace divvy::cli {
namespace {

using dialect::Option;

/// The options of divvy resize: those of divvy submit that set the GPU fraction.
std::vector<Option> ResizeTable(wire::JobSelector& select, JobSpec& spec) {
  std::vector<Option> table = SelectTable(select);
  table.push_back(Option::Value("gpus", 'g', "FRACTION",
                                "GPU fraction that the job requests of each of its GPUs, such as 0.5",
                                [&spec](std::string_view value) -> Status {
                                  DIVVY_CHECK(dialect::ApplyGpus(value, spec.request));
                                  if (spec.request.gpus > 0) return {};
                                  return InvalidArgument("'" + std::string(value) +
                                                         "' is not a GPU fraction; a job on a GPU fraction keeps "
                                                         "sharing its GPU: write a fraction such as --gpus 0.25");
                                }));
  table.push_back(Option::Value(
      "gpu-memory", "SIZE", "The request as GPU memory, such as 20G", [&spec](std::string_view value) -> Status {
        DIVVY_TRY(spec.request.gpu_memory, dialect::ParseSize(value, dialect::kMebibyte));
        if (spec.request.gpu_memory >= kSmallestPart) return {};
        return InvalidArgument("'" + std::string(value) + "' of GPU memory is too little; request 512M or more");
      }));
  std::vector<Option> more;
  dialect::AddPortionOptions(more, spec);
  for (Option& option : more) {
    if (option.name != "gpu-limit" && option.name != "gpu-memory-limit" && option.name != "compute") continue;
    option.help = dialect::WithoutDefault(option.help);
    table.push_back(std::move(option));
  }
  return table;
}

Result<GpuPortion> PortionOf(JobSpec& spec) {
  const bool says_whole =
      spec.request.gpus > 0 && spec.request.portion.request == GpuShare() && spec.request.gpu_memory == Bytes();
  if (says_whole)
    return InvalidArgument(
        "a job on a GPU fraction keeps sharing its GPU; write a fraction such as --gpus 0.5, and --gpu-limit 1.0 to "
        "let it use the whole GPU while the rest is idle");
  if (spec.request.portion == GpuPortion() && spec.request.gpu_memory == Bytes()) {
    return InvalidArgument(
        "name what to change: divvy resize ID --gpus 0.5, --gpu-limit 1.0, --gpu-memory 20G, --gpu-memory-limit 40G or "
        "--compute 0.3");
  }
  if (spec.request.gpus > 1)
    return InvalidArgument("the number of GPUs cannot change; write only the fraction of each: --gpus " +
                           PartsText(spec.request.portion.request));
  // A change of only the limit or the compute share keeps the request, which the daemon knows.
  const bool says_request = spec.request.portion.request > GpuShare() || spec.request.gpu_memory > Bytes();
  if (!says_request) return spec.request.portion;
  dialect::CompletePortion(spec);
  DIVVY_CHECK(dialect::CheckPortion(spec));
  return spec.request.portion;
}

int Send(const Words& words, std::string_view action, std::vector<Option> table, wire::PortionRequest& request,
         const std::function<Status()>& complete) {
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(table, words));
  request.select.ids = parsed.positional;
  if (const Status selects = CheckSelection(request.select, action); !selects) return Fail(selects.error());
  if (const Status whole = complete ? complete() : Status(); !whole) return Fail(whole.error());
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  // Moving, parking and waking copies gigabytes, and may first have to free host memory.
  std::optional<ProgressIndicator> progress(std::in_place, std::string(action) + ": waiting for the daemon");
  const auto results = api.Portion(action, request);
  progress.reset();
  return ReportActions(results);
}

std::vector<Option> MoveTable(wire::PortionRequest& request) {
  std::vector<Option> table = SelectTable(request.select);
  table.push_back(Option::Value("to", "GPU[,GPU...]", "GPUs on the job's node, one for each GPU that it uses",
                                [&request](std::string_view value) -> Status {
                                  for (const std::string_view part : Split(value, ',')) {
                                    DIVVY_TRY(const int gpu,
                                              dialect::ReadCount(part, 0, GpuSet::kCapacity - 1, "a GPU"));
                                    request.to.push_back(gpu);
                                  }
                                  return {};
                                }));
  return table;
}

}  // namespace

std::vector<Option> ResizeOptions() {
  static wire::JobSelector select;
  static JobSpec spec;
  return ResizeTable(select, spec);
}

int ResizeMain(const Words& words) {
  wire::PortionRequest request;
  JobSpec spec;
  return Send(words, "resize", ResizeTable(request.select, spec), request, [&]() -> Status {
    DIVVY_TRY(request.portion, PortionOf(spec));
    return {};
  });
}

int ParkMain(const Words& words) {
  wire::PortionRequest request;
  return Send(words, "park", SelectTable(request.select), request, {});
}

int WakeMain(const Words& words) {
  wire::PortionRequest request;
  return Send(words, "wake", SelectTable(request.select), request, {});
}

std::vector<Option> MoveOptions() {
  static wire::PortionRequest request;
  return MoveTable(request);
}

int MoveMain(const Words& words) {
  wire::PortionRequest request;
  return Send(words, "move", MoveTable(request), request, [&]() -> Status {
    if (request.to.empty()) return InvalidArgument("name the target GPU: divvy move 17 --to 3");
    return {};
  });
}

}  // namespace divvy::cli
