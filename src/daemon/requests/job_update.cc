#include "daemon/requests/job_update.h"

#include <algorithm>
#include <cmath>

#include "base/utf8.h"
#include "daemon/requests/check_spec.h"
#include "dialect/options/job_options.h"
#include "dialect/options/node_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/portion_options.h"
#include "model/gpus/gpu_portion.h"
#include "model/growth_wishes.h"
#include "node/job_environment.h"

namespace divvy {
namespace {

constexpr std::size_t kLongestText = 4096;  // PATH_MAX; labels are shorter.

/// Reads the fields of one update; keeps the first error.
class Reader {
 public:
  void Count(std::string_view name, const std::optional<std::int64_t>& from, std::int64_t least, std::int64_t most,
             std::optional<int>& into) {
    if (!from) return;
    if (*from < least || *from > most)
      return Refuse(name, "give a whole number from " + std::to_string(least) + " to " + std::to_string(most));
    into = static_cast<int>(*from);
  }
  void Size(std::string_view name, const std::optional<std::int64_t>& from, std::optional<Bytes>& into) {
    if (!from) return;
    if (*from < 0) return Refuse(name, "give 0 or more bytes");
    into = Bytes(*from);
  }
  void Seconds(std::string_view name, const std::optional<double>& from, std::optional<Duration>& into) {
    if (!from) return;
    if (!(*from >= 0 && *from <= 1e9)) return Refuse(name, "give 0 to 1000000000 seconds");
    into = Duration(std::llround(*from * 1e9));
  }
  void Moment(std::string_view name, const std::optional<double>& from, std::optional<Time>& into) {
    if (!from) return;
    if (!(*from >= 0 && *from <= 9e9)) return Refuse(name, "give seconds since 1970, or 0 for at once");
    into = TimeFromSeconds(*from);
  }
  void Text(std::string_view name, const std::optional<std::string>& from, std::size_t most,
            std::optional<std::string>& into) {
    if (!from) return;
    if (from->size() > most) return Refuse(name, "at most " + std::to_string(most) + " bytes are taken");
    if (const auto control = FirstControl(*from)) {
      return Refuse(name, "it holds the control character " + *control +
                              "; one line of text without control characters is allowed");
    }
    into = from;
  }
  void Topology(const std::optional<std::string>& from, std::optional<JobChanges::Topology>& into) {
    if (!from) return;
    Request request;
    if (const Status read = dialect::ParseTopology(*from, request); !read)
      return Refuse("topology", read.error().message);
    into = {request.topology, request.requires_topology};
  }
  void Slice(const std::optional<std::string>& from, std::optional<std::string>& into) {
    if (!from) return;
    const auto read = dialect::ReadSlice(*from);
    if (!read) return Refuse("slice", read.error().message);
    into = *read;
  }
  void Dependencies(const std::optional<std::vector<std::string>>& from,
                    std::optional<JobChanges::Dependencies>& into) {
    if (!from) return;
    JobChanges::Dependencies all;
    for (const std::string& text : *from) {
      JobSpec read;
      if (const auto parsed = dialect::ParseDependencies(text, dialect::ParseContext(), read); !parsed)
        return Refuse("dependency", parsed.error().message);
      all.all.insert(all.all.end(), read.dependencies.begin(), read.dependencies.end());
      all.needs_any |= read.needs_any_dependency;
    }
    if (all.needs_any && from->size() > 1)
      return Refuse("dependency", "'?' (any of them) stands in one text, such as afterok:12?afterok:13");
    into = std::move(all);
  }
  Status status() const { return error_ ? Status(*error_) : Status(); }

 private:
  void Refuse(std::string_view name, const std::string& what) {
    if (!error_) error_ = InvalidArgument(std::string(name) + ": " + what);
  }
  std::optional<Error> error_;
};

/// Copies the record's values into the specification: earlier changes and the present ones.
void TakeOver(const JobRecord& record, JobSpec& spec) {
  spec.name = record.name;
  spec.request = record.request;
  spec.placement = record.placement;
  spec.is_placement_set = record.is_placement_set;
  spec.preemptible = record.preemptible;
  spec.is_preemptible_set = record.is_preemptible_set;
  spec.priority = record.priority;
  spec.begin = record.begin;
  spec.time_limit = record.time_limit;
  spec.end_by = record.end_by;
  spec.dependencies = record.dependencies;
  spec.needs_any_dependency = record.needs_any_dependency;
  spec.keeps_waiting = record.keeps_waiting;
  spec.retries = record.retries;
  spec.retry_delay = record.retry_delay;
  spec.requeues_after_reboot = record.requeues_after_reboot;
  spec.stale_grace = record.stale_grace;
  spec.is_run_once = record.is_run_once;
  spec.group = record.group;
  if (spec.group.empty()) spec.group_limit = 0;
  spec.project = record.project;
  spec.pool = record.pool;
  spec.comment = record.comment;
}

Status ApplyWhatRuns(const wire::JobUpdate& update, JobSpec& spec, std::vector<std::string_view>& fields) {
  if (update.command && update.script) return InvalidArgument("command: both a command and a script are given");
  if (update.command) {
    fields.push_back("command");
    spec.command = *update.command;
    spec.script.clear();
    spec.arguments.clear();
  }
  if (update.script) {
    fields.push_back("script");
    spec.script = *update.script;
    spec.command.clear();
    spec.arguments.clear();
  }
  if (!update.arguments) return {};
  if (spec.script.empty()) return InvalidArgument("arguments: they are a script's; give the whole command");
  fields.push_back("arguments");
  spec.arguments = *update.arguments;
  return {};
}

Status ApplyFiles(const wire::JobUpdate& update, JobSpec& spec, std::vector<std::string_view>& fields) {
  Reader reader;
  const auto file = [&](std::string_view name, const std::optional<std::string>& from, std::string& into) {
    std::optional<std::string> text;
    reader.Text(name, from, kLongestText, text);
    if (!text) return;
    fields.push_back(name);
    into = *text;
  };
  const bool has_streams = update.output || update.error || update.input || update.appends_output;
  if (has_streams && spec.is_foreground)
    return FailedPrecondition("output: the job reads and writes on its caller's terminal");
  file("output", update.output, spec.output);
  file("error", update.error, spec.error);
  file("input", update.input, spec.input);
  file("chdir", update.directory, spec.directory);
  file("account", update.account, spec.account);
  file("pool", update.pool, spec.pool);
  if (update.appends_output) {
    fields.push_back("open-mode");
    spec.appends_output = *update.appends_output;
  }
  if (update.environment) {
    fields.push_back("env");
    spec.extra_environment =
        MergeEnvironment(std::vector<std::vector<std::string>>{spec.extra_environment, *update.environment});
  }
  return reader.status();
}

Status ApplySignals(const wire::JobUpdate& update, JobSpec& spec, std::vector<std::string_view>& fields) {
  Reader reader;
  if (update.warn) {
    if (update.warn->signal < 0 || update.warn->signal > 64 || update.warn->before < Duration(0))
      return InvalidArgument("signal: give a signal from 1 to 64 (0: none) and a time before the limit");
    fields.push_back("signal");
    spec.warn = *update.warn;
  }
  if (update.stop_signal) {
    std::optional<int> signal;
    reader.Count("stop-signal", update.stop_signal, 1, 64, signal);
    fields.push_back("stop-signal");
    spec.stop_signal = signal.value_or(spec.stop_signal);
  }
  if (update.grace_s) {
    std::optional<Duration> grace;
    reader.Seconds("grace", update.grace_s, grace);
    fields.push_back("grace");
    spec.grace = grace.value_or(spec.grace);
  }
  return reader.status();
}

/// The limits for nodes on demand are labels. Elements of an array share those of the array.
Status ApplyGrowth(const wire::JobUpdate& update, const JobRecord& record, JobSpec& spec,
                   std::vector<std::string_view>& fields) {
  const auto set = [&](std::string_view option, std::string_view label, const std::optional<std::string>& value) {
    if (!value) return;
    fields.push_back(option);
    spec.labels.erase(std::string(label));
    if (!value->empty()) spec.labels.emplace(label, *value);
  };
  if (update.grows) set("no-grow", kNoGrowLabel, *update.grows ? "" : "yes");
  set("provider", kProviderLabel, update.providers);
  set("max-price", kMaxPriceLabel, update.max_price);
  const bool is_set = update.grows || update.providers || update.max_price;
  if (is_set && record.array.is_set())
    return InvalidArgument(std::string(fields.back()) + ": the elements of an array share it; name the array, " +
                           ToString(record.array));
  return {};
}

/// Merges a change of the GPU fraction into the job's present one. --gpu-memory changes the fraction if the job
/// requests by memory.
void CompletePart(const JobRecord& record, JobChanges& changes) {
  const GpuPortion& before = record.request.portion;
  const bool stays_part = before.is_by_memory() && !changes.gpus && !changes.slice;
  if (changes.gpu_memory && stays_part && !(changes.portion && changes.portion->any())) {
    if (!changes.portion) changes.portion.emplace();
    changes.portion->memory = *std::exchange(changes.gpu_memory, std::nullopt);
  }
  if (changes.portion && before.any()) changes.portion = Changed(before, *changes.portion);
}

}  // namespace

Result<JobChanges> ChangesOf(const wire::JobUpdate& update) {
  JobChanges changes;
  Reader reader;
  reader.Count("gpus", update.gpus, 0, 1'000'000, changes.gpus);
  reader.Count("max_gpus", update.max_gpus, 0, GpuSet::kCapacity, changes.max_gpus);
  // A single number means exactly that many.
  if (changes.gpus && changes.max_gpus.value_or(0) <= *changes.gpus) changes.max_gpus = 0;
  reader.Text("gpu-type", update.gpu_type, 256, changes.gpu_type);
  reader.Size("gpu-memory", update.gpu_memory_bytes, changes.gpu_memory);
  reader.Slice(update.slice, changes.slice);
  changes.portion = update.portion;
  reader.Count("cpus", update.cpus, 0, 1'000'000, changes.cpus);
  reader.Size("memory", update.memory_bytes, changes.memory);
  reader.Count("tasks", update.tasks, 1, 65'536, changes.tasks);
  reader.Count("nodes", update.nodes, 1, dialect::kMostNodes, changes.nodes);
  // Names and features are parsed with the whole request (dialect/options/node_options.h).
  reader.Text("constraint", update.constraint, kLongestText, changes.constraint);
  changes.node_list = update.node_list;
  changes.excluded_nodes = update.excluded_nodes;
  changes.placement = update.placement;
  changes.preemptible = update.preemptible;
  reader.Topology(update.topology, changes.topology);
  reader.Moment("begin", update.begin, changes.begin);
  reader.Moment("deadline", update.end_by, changes.end_by);
  reader.Dependencies(update.dependencies, changes.dependencies);
  changes.keeps_waiting = update.keeps_waiting;
  reader.Text("group", update.group, 64, changes.group);
  reader.Count("priority", update.priority, -dialect::kMostPriority, dialect::kMostPriority, changes.priority);
  reader.Seconds("time", update.time_limit_s, changes.time_limit);
  reader.Text("name", update.name, 1024, changes.name);
  reader.Text("project", update.project, 64, changes.project);
  reader.Text("pool", update.pool, kLongestText, changes.pool);
  reader.Text("comment", update.comment, 65'536, changes.comment);
  reader.Count("retries", update.retries, 0, 1'000'000, changes.retries);
  reader.Seconds("retry-delay", update.retry_delay_s, changes.retry_delay);
  changes.requeues_after_reboot = update.requeues_after_reboot;
  reader.Count("at-once", update.array_at_once, 0, 4'000'000, changes.array_at_once);
  DIVVY_CHECK(reader.status());
  return changes;
}

Status CompleteChanges(const wire::JobUpdate& update, const JobRecord& record, const JobSpec& spec,
                       JobChanges& changes) {
  JobSpec wanted = spec;
  std::vector<std::string_view> fields;
  DIVVY_CHECK(ApplyWhatRuns(update, wanted, fields));
  DIVVY_CHECK(ApplyFiles(update, wanted, fields));
  DIVVY_CHECK(ApplySignals(update, wanted, fields));
  DIVVY_CHECK(ApplyGrowth(update, record, wanted, fields));
  if (changes.name && changes.name->empty()) changes.name = DefaultName(wanted);
  CompletePart(record, changes);
  JobRecord after = record;
  changes.ApplyTo(after);
  TakeOver(after, wanted);
  DIVVY_CHECK(CheckSpec(wanted));
  changes.queues_anyway = update.queues_anyway || spec.queues_anyway;
  wanted.queues_anyway = changes.queues_anyway;
  changes.spec_fields = std::move(fields);
  if (!changes.spec_fields.empty()) changes.spec = std::make_shared<const JobSpec>(std::move(wanted));
  return {};
}

}  // namespace divvy
