// divvy update: changes options of a submitted job. The options come from the table of `submit`, so that they have the
// same syntax and checks.
#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/client/actions.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"
#include "cli/client/progress_indicator.h"
#include "dialect/options/quantities.h"
#include "model/growth_wishes.h"
#include "model/job_record.h"

namespace divvy::cli {
namespace {

using dialect::Option;
using dialect::Takes;
using wire::JobUpdate;

void CopyDependencies(const JobSpec& spec, JobUpdate& update) {
  std::string all;
  for (const Dependency& dependency : spec.dependencies) {
    if (!all.empty()) all += spec.needs_any_dependency ? '?' : ',';
    all += dialect::FormatDependency(dependency);
  }
  update.dependencies.emplace();
  if (!all.empty()) update.dependencies->push_back(all);
}

void CopyEnvironment(const JobSpec& spec, JobUpdate& update) {
  update.environment = spec.extra_environment;
  if (spec.request.gpus >= 0) update.gpus = spec.request.gpus;  // VH_GPUS=2.
}

/// Copies the GPU fraction into the update. If the options request none, the update has none, and the job gets whole
/// GPUs.
void CopyPortion(const JobSpec& spec, JobUpdate& update) {
  update.portion.reset();
  if (spec.request.portion != GpuPortion()) update.portion = spec.request.portion;
}

std::string LabelOf(const JobSpec& spec, std::string_view name) {
  const auto label = spec.labels.find(std::string(name));
  return label == spec.labels.end() ? "" : label->second;
}

/// An option of `submit`, and how to copy it into an update.
struct Field {
  std::string_view option;
  bool may_be_empty = false;  // "" resets it.
  void (*copy)(const JobSpec& spec, JobUpdate& update) = nullptr;
  std::string_view help = "";  // Help text, if it differs from submit's.
};

constexpr Field kFields[] = {
    {"gpus", false,
     [](const JobSpec& spec, JobUpdate& update) {
       update.gpus = spec.request.gpus;
       update.max_gpus = spec.request.max_gpus;
       CopyPortion(spec, update);
     }},
    {"gpu-limit", false, CopyPortion},
    {"gpu-memory-limit", false, CopyPortion},
    {"compute", false, CopyPortion},
    {"idle-park", false, CopyPortion},
    {"slice", false, [](const JobSpec& spec, JobUpdate& update) { update.slice = spec.request.slice; }},
    {"topology", false,
     [](const JobSpec& spec, JobUpdate& update) {
       const std::string topology = TopologyText(spec.request);
       update.topology = topology.empty() ? "any" : topology;
     }},
    {"gpu-type", true, [](const JobSpec& spec, JobUpdate& update) { update.gpu_type = spec.request.gpu_type; }},
    {"gpu-memory", false,
     [](const JobSpec& spec, JobUpdate& update) {
       update.gpu_memory_bytes = std::max<std::int64_t>(0, spec.request.gpu_memory.count());
     }},
    {"cpus", false, [](const JobSpec& spec, JobUpdate& update) { update.cpus = spec.request.cpus; }},
    {"memory", false,
     [](const JobSpec& spec, JobUpdate& update) { update.memory_bytes = spec.request.memory.count(); }},
    {"nodes", false, [](const JobSpec& spec, JobUpdate& update) { update.nodes = spec.request.nodes; },
     "number of nodes; each provides the requested GPUs, cores and memory; a job with one task on each node keeps it "
     "so"},
    {"constraint", true, [](const JobSpec& spec, JobUpdate& update) { update.constraint = spec.request.constraint; }},
    {"nodelist", true, [](const JobSpec& spec, JobUpdate& update) { update.node_list = spec.request.node_list; }},
    {"exclude", true,
     [](const JobSpec& spec, JobUpdate& update) { update.excluded_nodes = spec.request.excluded_nodes; }},
    {"tasks", false, [](const JobSpec& spec, JobUpdate& update) { update.tasks = spec.request.tasks; }},
    {"placement", false, [](const JobSpec& spec, JobUpdate& update) { update.placement = spec.placement; }},
    {"preemptible", false, [](const JobSpec& spec, JobUpdate& update) { update.preemptible = spec.preemptible; }},
    {"queue-anyway", false, [](const JobSpec&, JobUpdate& update) { update.queues_anyway = true; }},
    {"time", false, [](const JobSpec& spec, JobUpdate& update) { update.time_limit_s = ToSeconds(spec.time_limit); },
     "time limit, counted from the start (0: none); only an administrator may raise it for a running job"},
    {"begin", true,
     [](const JobSpec& spec, JobUpdate& update) { update.begin = spec.begin == kNoTime ? 0 : ToSeconds(spec.begin); }},
    {"deadline", true,
     [](const JobSpec& spec, JobUpdate& update) {
       update.end_by = spec.end_by == kNoTime ? 0 : ToSeconds(spec.end_by);
     },
     "latest end time; \"\" clears it"},
    {"priority", false, [](const JobSpec& spec, JobUpdate& update) { update.priority = spec.priority; },
     "scheduling priority; higher runs first; only an administrator may raise it above 0"},
    {"dependency", true, CopyDependencies, "replace the dependencies: wait for these jobs only; \"\" clears them"},
    {"after", false, CopyDependencies},
    {"retries", false, [](const JobSpec& spec, JobUpdate& update) { update.retries = spec.retries; }},
    {"retry-delay", false,
     [](const JobSpec& spec, JobUpdate& update) { update.retry_delay_s = ToSeconds(spec.retry_delay); }},
    {"group", true, [](const JobSpec& spec, JobUpdate& update) { update.group = spec.group; }},
    {"output", true, [](const JobSpec& spec, JobUpdate& update) { update.output = spec.output; }},
    {"error", true, [](const JobSpec& spec, JobUpdate& update) { update.error = spec.error; }},
    {"input", true, [](const JobSpec& spec, JobUpdate& update) { update.input = spec.input; }},
    {"open-mode", false, [](const JobSpec& spec, JobUpdate& update) { update.appends_output = spec.appends_output; }},
    {"chdir", false, [](const JobSpec& spec, JobUpdate& update) { update.directory = spec.directory; },
     "working directory"},
    {"env", false, CopyEnvironment},
    {"signal", true, [](const JobSpec& spec, JobUpdate& update) { update.warn = spec.warn; }},
    {"stop-signal", false, [](const JobSpec& spec, JobUpdate& update) { update.stop_signal = spec.stop_signal; }},
    {"grace", false, [](const JobSpec& spec, JobUpdate& update) { update.grace_s = ToSeconds(spec.grace); }},
    {"name", true, [](const JobSpec& spec, JobUpdate& update) { update.name = spec.name; }},
    {"project", true, [](const JobSpec& spec, JobUpdate& update) { update.project = spec.project; }},
    {"comment", true, [](const JobSpec& spec, JobUpdate& update) { update.comment = spec.comment; }},
    {"account", true, [](const JobSpec& spec, JobUpdate& update) { update.account = spec.account; }},
    {"pool", true, [](const JobSpec& spec, JobUpdate& update) { update.pool = spec.pool; }},
    {"provider", true, [](const JobSpec& spec, JobUpdate& update) { update.providers = LabelOf(spec, kProviderLabel); },
     "request nodes for the job from these providers only; \"\" allows all; repeatable"},
    {"max-price", true,
     [](const JobSpec& spec, JobUpdate& update) { update.max_price = LabelOf(spec, kMaxPriceLabel); },
     "highest price per hour of all nodes that are requested for the job; \"\" removes it"},
};

/// An option that cannot change, and what to do instead.
struct FixedField {
  std::string_view option;
  std::string_view instead;
};
constexpr FixedField kFixedFields[] = {
    {"hold", "write: divvy hold ID"},
    {"group-limit", "write: divvy group limit NAME N"},
    {"team", "the team of a job cannot change; cancel the job and submit it again"},
    {"array",
     "the elements of an array cannot change; cancel it and submit it again (--at-once changes how many run at once)"},
    {"param", "the elements of a sweep cannot change; cancel it and submit it again"},
    {"param-file", "the elements of a sweep cannot change; cancel it and submit it again"},
    {"name-template", "the job names of a sweep cannot change; cancel it and submit it again"},
    {"export", "the environment was captured at submission; --env NAME=VALUE adds to it"},
    {"pty", "the terminal of a job is set at submission and cannot change"},
};

/// "--keep-waiting" and "--keep-waiting=no".
Option YesOrNo(Option option, std::optional<bool>& into) {
  option.takes = Takes::kOptionalValue;
  option.value_name = "yes|no";
  option.group = dialect::OptionGroup::kNone;
  option.apply = [&into](std::string_view value) -> Status {
    if (!value.empty() && value != "yes" && value != "no")
      return InvalidArgument("'" + std::string(value) + "' is not valid: expected yes or no");
    into = value != "no";
    return {};
  };
  return option;
}

/// Everything that the table's closures read or write.
struct UpdateFlags {
  dialect::ParseContext around;
  JobSpec spec;
  JobUpdate update;
  std::optional<bool> stays;  // --no-grow.

  UpdateFlags() { spec.request.gpus = -1; }
};

std::vector<Option> UpdateTable(UpdateFlags& wish) {
  std::vector<Option> table = SelectTable(wish.update.select);
  std::erase_if(table, [](const Option& option) {
    return option.name != "all" && option.name != "user" && option.name != "state";
  });
  for (Option& option : dialect::JobOptions(wish.spec, wish.around)) {
    if (option.name == "keep-waiting") table.push_back(YesOrNo(option, wish.update.keeps_waiting));
    if (option.name == "no-grow") {
      table.push_back(YesOrNo(option, wish.stays));
      table.push_back(
          Option::Flag("grow", "nodes may be requested for the job again", dialect::Sets(wish.stays, false)));
    }
    if (option.name == "requeue-after-reboot") table.push_back(YesOrNo(option, wish.update.requeues_after_reboot));
    const Field* field = std::ranges::find(kFields, option.name, &Field::option);
    if (field == std::end(kFields)) continue;
    option.help = field->help.empty() ? dialect::WithoutDefault(option.help) : field->help;
    option.group = dialect::OptionGroup::kNone;
    option.apply = [apply = std::move(option.apply), takes = option.takes, field,
                    &wish](std::string_view value) -> Status {
      const bool takes_back = value.empty() && field->may_be_empty && takes == Takes::kValue;
      if (!takes_back) DIVVY_CHECK(apply(value));
      field->copy(takes_back ? JobSpec() : wish.spec, wish.update);
      return {};
    };
    table.push_back(std::move(option));
  }
  table.push_back(Option::Value("at-once", "N", "how many elements of an array may run at once (0: no limit)",
                                [&wish](std::string_view value) -> Status {
                                  const auto number = ParseInteger(value);
                                  if (!number || *number < 0 || *number > 1'000'000)
                                    return InvalidArgument("'" + std::string(value) +
                                                           "' is not a whole number from 0 to 1000000");
                                  wish.update.array_at_once = *number;
                                  return {};
                                }));
  table.push_back(Option::Value("script", "FILE",
                                "replace the script, with the arguments after \"--\"; its option lines are ignored",
                                [&wish](std::string_view value) -> Status {
                                  DIVVY_TRY(wish.update.script, wish.around.read_file(std::string(value)));
                                  return {};
                                }));
  return table;
}

/// Options of `submit` that explain here why they cannot be used.
std::vector<Option> FixedTable() {
  std::vector<Option> table;
  for (const FixedField& fixed : kFixedFields) {
    table.push_back({fixed.option,
                     0,
                     Takes::kOptionalValue,
                     "",
                     "",
                     [&fixed](std::string_view) -> Status { return InvalidArgument(std::string(fixed.instead)); },
                     {},
                     true});
  }
  return table;
}

}  // namespace

std::vector<Option> UpdateOptions() {
  static UpdateFlags scratch;
  return UpdateTable(scratch);
}

int UpdateMain(const Words& words) {
  UpdateFlags wish;
  wish.around = CallerParseContext();
  std::vector<Option> table = UpdateTable(wish);
  for (Option& option : FixedTable()) table.push_back(std::move(option));
  DIVVY_TRY_OR_FAIL(const auto parsed, dialect::ParseOptions(table, words));
  JobUpdate& update = wish.update;
  // As at submission: `gpu_memory` belongs to the GPU fraction.
  if (update.portion && update.portion->memory_limit > Bytes() && update.gpu_memory_bytes) {
    update.portion->memory = Bytes(*std::exchange(update.gpu_memory_bytes, std::nullopt));
  }
  if (wish.stays) update.grows = !*wish.stays;
  update.select.ids = parsed.positional;
  if (update.select.ids.empty() && !update.select.is_all)
    return Fail(InvalidArgument("name the jobs: divvy update 17 --priority 5"));
  if (parsed.saw_dashes && parsed.after_dashes.empty())
    return Fail(InvalidArgument("there is no command after \"--\"; write divvy update 17 -- python train.py"));
  if (parsed.saw_dashes) (update.script ? update.arguments : update.command) = parsed.after_dashes;
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  std::optional<ProgressIndicator> progress(std::in_place, "waiting for the daemon");
  const auto results = api.Update(update);
  progress.reset();
  return ReportActions(results);
}

}  // namespace divvy::cli
