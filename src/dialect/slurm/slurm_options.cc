// The table of options that sbatch, srun and salloc share. Options with an effect are here; those without one are in
// slurm_noted_options.cc.
#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <memory>
#include <set>
#include <tuple>

#include "base/text.h"
#include "dialect/options/container_options.h"
#include "dialect/options/option_values.h"
#include "dialect/options/quantities.h"
#include "dialect/options/quoted.h"
#include "dialect/options/slurm_request.h"
#include "dialect/slurm/slurm.h"
#include "dialect/slurm/slurm_noted_options.h"
#include "engine/pool_row.h"
#include "model/notify.h"

namespace divvy::dialect {
namespace {

using slurm::Forget;
using slurm::Keep;
using slurm::ParseCount;

constexpr std::int64_t kMostTasks = 1'000'000;
constexpr std::int64_t kMostCpus = 10'000;

/// Mutually exclusive options. A later level's choice replaces an earlier level's. Two in one level are an error,
/// unless they count the same thing and can be compared (is_comparable; see slurm::Settle).
struct Rivals {
  std::vector<std::string_view> options;
  bool is_comparable = false;
};
const std::vector<Rivals>& AllRivals() {
  static const std::vector<Rivals> kRivals = {
      {{"mem", "mem-per-cpu", "mem-per-gpu"}, false}, {{"cpus-per-task", "cpus-per-gpu"}, false},
      {{"core-spec", "thread-spec"}, false},          {{"gpus-per-task", "ntasks-per-gpu"}, false},
      {{"ntasks-per-node", "ntasks-per-gpu"}, false}, {{"gres", "gpus", "gpus-per-node", "gpus-per-socket"}, true},
  };
  return kRivals;
}

/// Refuses a --time-min that does not fit before the --deadline.
Status CheckTimeMin(const JobSpec& spec, Duration least, Time now) {
  if (spec.end_by == kNoTime || AddSaturating(std::max(now, spec.begin), least) <= spec.end_by) return {};
  return InvalidArgument(
      "Invalid time-min specification: it does not fit before the deadline; give a later --deadline");
}

class Builder {
 public:
  Builder(JobSpec& spec, const ParseContext& around) : spec_(&spec), around_(&around) {}

  std::vector<Option> Build() {
    AddNames();
    AddTasks();
    AddGpus();
    AddMemoryAndTime();
    AddWhen();
    AddFiles();
    AddPlaces();
    AddClientSide();
    AddSlurmContainerOptions(options_, *spec_);
    slurm::AddNotedOptions(*spec_, options_);
    return std::move(options_);
  }

 private:
  void Add(std::string_view name, char letter, Takes takes, std::string_view value_name, std::string_view help,
           Apply apply, std::vector<std::string_view> aliases = {}) {
    Option option{.name = name,
                  .letter = letter,
                  .takes = takes,
                  .value_name = value_name,
                  .help = help,
                  .apply = std::move(apply),
                  .aliases = std::move(aliases)};
    options_.push_back(std::move(option));
  }

  /// Adds an option whose value is checked by `check` and stored in a label of the job.
  void AddKept(std::string_view name, char letter, std::string_view value_name, std::string_view help,
               std::function<Status(std::string_view)> check, std::vector<std::string_view> aliases = {}) {
    Add(
        name, letter, Takes::kValue, value_name, help,
        [this_ = State(), name, check = std::move(check)](std::string_view value) -> Status {
          DIVVY_CHECK(check(value));
          return this_.Take(name, value);
        },
        std::move(aliases));
  }

  void AddCount(std::string_view name, char letter, std::string_view help, std::int64_t least, std::int64_t most,
                std::vector<std::string_view> aliases = {}) {
    Add(
        name, letter, Takes::kValue, "N", help,
        [this_ = State(), name, least, most](std::string_view value) -> Status {
          DIVVY_TRY(const std::int64_t count, ParseCount(value, least, most));
          return this_.Take(name, std::to_string(count));
        },
        std::move(aliases));
  }

  /// Shared by the closures: the spec, and the options that this level has set.
  struct Level {
    JobSpec* spec;
    std::shared_ptr<std::set<std::string_view>> seen;

    Status Take(std::string_view name, std::string_view value) const {
      for (const Rivals& rivals : AllRivals()) {
        if (std::ranges::find(rivals.options, name) == rivals.options.end()) continue;
        for (const std::string_view rival : rivals.options) {
          if (rival == name) continue;
          if (!seen->contains(rival)) {
            Forget(*spec, rival);
          } else if (!rivals.is_comparable) {
            return InvalidArgument("it cannot be together with --" + std::string(rival) + "; keep one of them");
          }
        }
      }
      seen->insert(name);
      Keep(*spec, name, value);
      return {};
    }
  };
  Level State() const { return {spec_, seen_}; }

  void AddNames();
  void AddTasks();
  void AddGpus();
  void AddMemoryAndTime();
  void AddWhen();
  void AddFiles();
  void AddPlaces();
  void AddClientSide();
  void AddDependencies();
  void AddSignal();

  JobSpec* spec_;
  const ParseContext* around_;
  std::shared_ptr<std::set<std::string_view>> seen_ = std::make_shared<std::set<std::string_view>>();
  std::vector<Option> options_;
};

void Builder::AddNames() {
  JobSpec* spec = spec_;
  Add("job-name", 'J', Takes::kValue, "NAME", "Name of the job", [spec](std::string_view value) -> Status {
    if (value.empty()) return InvalidArgument("a name is missing");
    spec->name = value;
    Keep(*spec, "job-name", value);
    return {};
  });
  Add("account", 'A', Takes::kValue, "NAME", "Account to charge; a label here",
      [spec](std::string_view value) -> Status {
        spec->account = value;
        return {};
      });
  Add("partition", 'p', Takes::kValue, "NAMES", "Partition; a label here", [spec](std::string_view value) -> Status {
    // Remove duplicates and stray commas.
    spec->pool = divvy::Join(PoolsIn(value), ",");
    if (spec->pool.empty()) return InvalidArgument("a partition is missing");
    return {};
  });
  Add("qos", 'q', Takes::kValue, "NAME", "Quality of service; a label here", [spec](std::string_view value) -> Status {
    Keep(*spec, "qos", value);
    return {};
  });
  Add("comment", 0, Takes::kValue, "TEXT", "Any text, shown with the job", [spec](std::string_view value) -> Status {
    spec->comment = value;
    return {};
  });
  Add("wckey", 0, Takes::kValue, "KEY", "Workload key; a label here", [spec](std::string_view value) -> Status {
    Keep(*spec, "wckey", value);
    return {};
  });
  AddKept("mail-user", 0, "ADDRESS", "Recipient of --mail-type mail (default: you)",
          [](std::string_view value) -> Status {
            if (value.empty()) return InvalidArgument("an address is missing");
            for (const std::string_view one : Split(value, ',')) {
              if (!IsMailAddress(Trim(one))) return InvalidArgument(Quoted(one) + " is not a mail address");
            }
            return {};
          });
  AddKept(
      "mail-type", 0, "EVENTS", "Events to send mail about: BEGIN, END, FAIL, REQUEUE, TIME_LIMIT, ARRAY_TASKS, ALL",
      [spec](std::string_view value) -> Status {
        constexpr std::array<std::string_view, 13> kEvents = {
            "NONE",          "BEGIN",          "END",        "FAIL",       "REQUEUE",
            "ALL",           "INVALID_DEPEND", "STAGE_OUT",  "TIME_LIMIT", "TIME_LIMIT_90",
            "TIME_LIMIT_80", "TIME_LIMIT_50",  "ARRAY_TASKS"};
        for (std::string_view event : Split(value, ',')) {
          event = Trim(event);
          if (std::ranges::any_of(kEvents, [&](std::string_view known) { return EqualsIgnoringCase(known, event); }))
            continue;
          std::string upper(event);
          std::ranges::transform(upper, upper.begin(),
                                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
          const std::string_view near = Nearest(upper, kEvents);
          return InvalidArgument(
              Quoted(event) + " is not an event; write " +
              (near.empty() ? "BEGIN, END, FAIL, REQUEUE, TIME_LIMIT, ARRAY_TASKS or ALL" : std::string(near)));
        }
        // Events for which divvy never sends mail: there is no staging of data, and a time limit is only reported once
        // it is reached.
        constexpr std::array<std::string_view, 5> kUntold = {"INVALID_DEPEND", "STAGE_OUT", "TIME_LIMIT_90",
                                                             "TIME_LIMIT_80", "TIME_LIMIT_50"};
        for (std::string_view event : Split(value, ',')) {
          event = Trim(event);
          if (std::ranges::any_of(kUntold, [&](std::string_view one) { return EqualsIgnoringCase(one, event); }))
            AddNote(*spec, "--mail-type: divvy sends no mail for " + std::string(event));
        }
        return {};
      });
}

void Builder::AddTasks() {
  AddKept("nodes", 'N', "N", "Number of nodes", [spec = spec_](std::string_view value) -> Status {
    DIVVY_TRY(const slurm::NodeRange range, slurm::ParseNodes(value));
    if (range.most > range.least)
      AddNote(*spec, "--nodes=" + std::string(value) + ": " +
                         (range.least <= 1 ? "one node is" : std::to_string(range.least) + " nodes are") +
                         " given, the fewest that will do");
    return {};
  });
  AddCount("ntasks", 'n', "Tasks that srun starts", 1, kMostTasks, {"tasks"});
  AddCount("ntasks-per-node", 0, "Tasks on each node", 1, kMostTasks, {"tasks-per-node"});
  AddCount("ntasks-per-gpu", 0, "Tasks for each GPU", 1, kMostTasks);
  AddCount("cpus-per-task", 'c', "CPUs of each task", 1, kMostCpus);
  AddCount("cpus-per-gpu", 0, "CPUs for each GPU", 1, kMostCpus);
  AddCount("mincpus", 0, "Minimum number of CPUs", 1, kMostCpus);
  for (const auto& [name, letter, help] :
       {std::tuple("core-spec", 'S', "Cores for the system; none are reserved"),
        std::tuple("thread-spec", '\0', "Threads for the system; none are reserved")}) {
    AddKept(name, letter, "N", help, [spec = spec_, option = std::string(name)](std::string_view value) -> Status {
      DIVVY_TRY([[maybe_unused]] const std::int64_t count, ParseCount(value, 0, kMostCpus));
      AddNote(*spec, "--" + option + "=" + std::string(value) + ": none are reserved");
      return {};
    });
    options_.back().is_hidden = true;
  }
  Add("distribution", 'm', Takes::kValue, "HOW", "How tasks are placed on the nodes: block, cyclic, arbitrary",
      [spec = spec_](std::string_view value) -> Status {
        DIVVY_TRY(const slurm::Distribution how, slurm::ParseDistribution(value));
        Keep(*spec, "distribution", how.plane_size > 0 ? std::string(value) : how.text);
        if (!how.text.starts_with("arbitrary"))
          AddNote(*spec, "--distribution=" + std::string(value) + ": tasks are placed in blocks, node after node");
        return {};
      });
  options_.back().is_hidden = true;
  AddCount("sockets-per-node", 0, "Sockets, for --gpus-per-socket", 1, 1024);
  Add("exclusive", 0, Takes::kOptionalValue, "user", "All GPUs of its nodes",
      [spec = spec_](std::string_view value) -> Status {
        if (value.empty()) {
          Keep(*spec, "exclusive", "node");
        } else if (value == "user" || value == "mcs" || value == "topo") {
          AddNote(*spec, "--exclusive=" + std::string(value) + ": other jobs may run beside this one, on other GPUs");
        } else {
          return InvalidArgument(Quoted(value) + " is not valid: expected user, mcs or topo, or only --exclusive");
        }
        return {};
      });
}

void Builder::AddGpus() {
  const auto count = [](std::string_view value) -> Status {
    DIVVY_TRY([[maybe_unused]] const slurm::GpuOption ask, slurm::ParseGpuCount(value));
    return {};
  };
  AddKept("gres", 0, "gpu[:TYPE]:N", "GPUs on each node", [](std::string_view value) -> Status {
    DIVVY_TRY([[maybe_unused]] const slurm::GresOption ask, slurm::ParseGres(value));
    return {};
  });
  AddKept("gpus", 'G', "[TYPE:]N", "GPUs of the whole job", count);
  AddKept("gpus-per-node", 0, "[TYPE:]N", "GPUs on each node", count);
  AddKept("gpus-per-task", 0, "[TYPE:]N", "GPUs of each task", count);
  AddKept("gpu-bind", 0, "HOW", "GPUs that each task sees: closest, none, single:N, per_task:N, map_gpu, mask_gpu",
          slurm::CheckGpuBind);
  options_.back().is_hidden = true;
  AddKept("gpus-per-socket", 0, "[TYPE:]N", "GPUs on each socket", count);
  AddKept("tres-per-task", 0, "LIST", "CPUs and GPUs of each task", [](std::string_view value) -> Status {
    DIVVY_TRY([[maybe_unused]] const slurm::TresOption ask, slurm::ParseTres(value));
    return {};
  });
  AddKept("constraint", 'C', "FEATURES", "GPU model, such as a100|h100, and node features",
          [](std::string_view value) -> Status {
            DIVVY_TRY([[maybe_unused]] const slurm::ConstraintOption ask, slurm::ParseConstraint(value));
            return {};
          });
}

void Builder::AddMemoryAndTime() {
  JobSpec* spec = spec_;
  const auto size = [](std::string_view value) -> Status {
    if (value.find('$') != std::string_view::npos) {
      return InvalidArgument(Quoted(value) + ": no shell expands variables here; write the size");
    }
    DIVVY_TRY(const Bytes bytes, ParseSize(value, 1 << 20));
    if (bytes.count() < 0) return InvalidArgument("a size below zero");
    return {};
  };
  AddKept("mem", 0, "SIZE", "Host memory on each node, in MiB without a unit; 0 reserves none", size);
  AddKept("mem-per-cpu", 0, "SIZE", "Host memory for each CPU", size);
  AddKept("mem-per-gpu", 0, "SIZE", "Host memory for each GPU", size);
  Add("time", 't', Takes::kValue, "TIME", "Time limit: minutes, M:S, H:M:S, D-H[:M[:S]]; 0 means none",
      [spec](std::string_view value) -> Status {
        if (value.find('$') != std::string_view::npos) {
          return InvalidArgument(Quoted(value) + ": no shell expands variables here; write the time");
        }
        DIVVY_TRY(const Duration limit, ParseSlurmTime(value));
        // Slurm counts limits in whole minutes and rounds up.
        spec->time_limit = std::chrono::ceil<std::chrono::minutes>(limit);
        return {};
      });
  AddKept("time-min", 0, "TIME", "Minimum time limit, if --time is shortened to meet the --deadline",
          [spec, around = around_](std::string_view value) -> Status {
            DIVVY_TRY(const Duration limit, ParseSlurmTime(value));
            AddNote(*spec,
                    "--time-min=" + std::string(value) + ": the time limit is shortened only to meet a --deadline");
            return CheckTimeMin(*spec, limit, around->now);
          });
  AddKept("deadline", 0, "TIME", "Latest end time; the job does not start too late for it, and is stopped at that time",
          [spec, around = around_](std::string_view value) -> Status {
            DIVVY_TRY(spec->end_by, ParseMoment(value, around->now, around->utc_offset));
            if (spec->end_by <= around->now) return InvalidArgument(Quoted(value) + " has passed");
            const auto least = slurm::Value(*spec, "time-min");
            if (!least) return {};
            DIVVY_TRY(const Duration limit, ParseSlurmTime(*least));
            return CheckTimeMin(*spec, limit, around->now);
          });
}

void Builder::AddDependencies() {
  JobSpec* spec = spec_;
  Add("dependency", 'd', Takes::kValue, "LIST", "Jobs to wait for: afterok:ID, afterany:ID, singleton, ...",
      [spec, around = around_](std::string_view value) -> Status {
        // Options are read in levels (slurm.h), such as the script's before the command line's. The list of a later
        // level replaces that of an earlier level.
        JobSpec read;
        DIVVY_CHECK(ParseDependencies(value, *around, read));
        spec->dependencies = std::move(read.dependencies);
        spec->needs_any_dependency = read.needs_any_dependency;
        for (std::string& note : read.notes) AddNote(*spec, std::move(note));
        Keep(*spec, "dependency", value);
        return {};
      });
  Add("kill-on-invalid-dep", 0, Takes::kValue, "yes|no",
      "End the job if a dependency can no longer be met (default: yes)", [spec](std::string_view value) -> Status {
        if (!EqualsIgnoringCase(value, "yes") && !EqualsIgnoringCase(value, "no")) {
          return InvalidArgument(Quoted(value) + " is not valid: expected yes or no");
        }
        spec->keeps_waiting = EqualsIgnoringCase(value, "no");
        return {};
      });
}

void Builder::AddSignal() {
  Add("signal", 0, Takes::kValue, "[B:]SIGNAL[@SECONDS]", "Signal to send before the time limit",
      [spec = spec_](std::string_view value) -> Status {
        WarnSignal warn;
        std::string_view rest = value;
        // "B:", "R:" (for reservations, which send no signals here), "RB:", "B:R:".
        for (auto colon = rest.find(':'); colon != std::string_view::npos; colon = rest.find(':')) {
          const std::string flags = ToLower(rest.substr(0, colon));
          if (flags.empty() || flags.find_first_not_of("br") != std::string::npos) break;
          if (flags.find('b') != std::string::npos) warn.batch_only = true;
          rest.remove_prefix(colon + 1);
        }
        if (rest.empty()) return InvalidArgument("a signal is missing; write USR1@300");
        const auto at = rest.find('@');
        DIVVY_TRY(warn.signal, ParseSignal(rest.substr(0, at)));
        std::int64_t seconds = 60;  // Slurm's default.
        if (at != std::string_view::npos) {
          DIVVY_TRY(seconds, ParseCount(rest.substr(at + 1), 0, 65535));
        }
        warn.before = std::chrono::seconds(seconds);
        spec->warn = warn;
        return {};
      });
}

void Builder::AddWhen() {
  JobSpec* spec = spec_;
  Add("begin", 'b', Takes::kValue, "TIME", "Earliest start time: 16:00, now+1hour, 2026-03-01T16:00",
      [spec, around = around_](std::string_view value) -> Status {
        DIVVY_TRY(spec->begin, ParseMoment(value, around->now, around->utc_offset));
        return {};
      });
  Add("hold", 'H', Takes::kNothing, "", "Hold the job until it is released", [spec](std::string_view) -> Status {
    spec->is_held = true;
    return {};
  });
  Add("array", 'a', Takes::kValue, "INDICES[%N]", "One job for each index, at most N at once",
      [spec](std::string_view value) -> Status {
        ArraySpec array;
        const auto percent = value.find('%');
        DIVVY_TRY(array.indices, IndexRanges::Parse(value.substr(0, percent), "indices"));
        if (array.indices.empty()) return InvalidArgument("the list of indices is empty; write 0-9");
        if (percent != std::string_view::npos) {
          DIVVY_TRY(const std::int64_t at_once, ParseCount(value.substr(percent + 1), 0, kMostTasks));
          array.at_once = static_cast<int>(at_once);
        }
        spec->array = array;
        Keep(*spec, "array", value);
        return {};
      });
  Add("nice", 0, Takes::kOptionalValue, "N", "Lower the priority by N (default: 100)",
      [spec](std::string_view value) -> Status {
        std::int64_t nice = 100;  // Slurm's own, for --nice alone.
        if (!value.empty()) {
          DIVVY_TRY(nice, ParseCount(value, -2'147'483'645, 2'147'483'645));
        }
        Keep(*spec, "nice", std::to_string(nice));
        return {};
      });
  Add("priority", 0, Takes::kValue, "N", "Priority; higher runs first", [spec](std::string_view value) -> Status {
    std::int64_t priority = 1'000'000'000;
    if (!EqualsIgnoringCase(value, "top")) {
      DIVVY_TRY(priority, ParseCount(value, 0, 4'294'967'294));
    }
    Keep(*spec, "priority", std::to_string(std::min<std::int64_t>(priority, 1'000'000'000)));
    return {};
  });
  Add("requeue", 0, Takes::kOptionalValue, "", "Restart the job after a reboot", [spec](std::string_view) -> Status {
    spec->requeues_after_reboot = true;
    spec->is_run_once = false;
    Keep(*spec, "requeue", "1");
    return {};
  });
  Add("no-requeue", 0, Takes::kNothing, "", "Never restart the job", [spec](std::string_view) -> Status {
    spec->requeues_after_reboot = false;
    spec->is_run_once = true;
    Keep(*spec, "requeue", "0");
    return {};
  });
  Add("no-kill", 'k', Takes::kOptionalValue, "off", "Let the job continue if one of its nodes fails",
      [spec](std::string_view value) -> Status {
        spec->stale_grace = EqualsIgnoringCase(value, "off") ? Duration(0) : Duration(-1);
        Keep(*spec, "no-kill", std::string(value));
        return {};
      });
  AddDependencies();
  AddSignal();
}

void Builder::AddFiles() {
  JobSpec* spec = spec_;
  // In Slurm, %J is job and step, and %s the step. A batch job's output has neither.
  const auto pattern = [](std::string_view value) {
    std::string text;
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (value[i] == '%' && i + 1 < value.size() &&
          (value[i + 1] == 'J' || value[i + 1] == 's' || value[i + 1] == '%')) {
        text += value[i + 1] == 'J' ? "%j" : value[i + 1] == 's' ? "batch" : "%%";
        ++i;
      } else {
        text += value[i];
      }
    }
    return text;
  };
  const auto file = [&](std::string_view name, char letter, std::string_view help, std::string JobSpec::*field) {
    Add(name, letter, Takes::kValue, "FILE", help, [spec, field, pattern](std::string_view value) -> Status {
      if (value.empty()) return InvalidArgument("the file name is empty");
      if (value.ends_with('/'))
        return InvalidArgument(Quoted(value) + " is a directory; add a file name, such as " + std::string(value) +
                               "%j.out");
      spec->*field = pattern(value);
      return {};
    });
  };
  file("output", 'o', "Output file: %j id, %A array, %a index, %x name, %u user, %N node", &JobSpec::output);
  file("error", 'e', "File of the errors; joins the output without it", &JobSpec::error);
  file("input", 'i', "File to read", &JobSpec::input);
  Add("open-mode", 0, Takes::kValue, "append|truncate", "Append to the output file, or truncate it",
      [spec](std::string_view value) -> Status {
        if (value != "append" && value != "truncate" && value != "a" && value != "t") {
          return InvalidArgument(Quoted(value) + " is not a file mode: expected append or truncate");
        }
        spec->appends_output = value.starts_with('a');
        return {};
      });
  Add("chdir", 'D', Takes::kValue, "DIR", "Working directory",
      [spec, around = around_](std::string_view value) -> Status {
        if (value.empty()) return InvalidArgument("the directory is empty");
        spec->directory = value.starts_with('/') ? std::string(value) : around->directory + "/" + std::string(value);
        return {};
      },
      {"workdir"});
  Add("export", 0, Takes::kValue, "ALL|NONE|NAMES", "Environment variables to copy into the job",
      [spec](std::string_view value) -> Status {
        DIVVY_CHECK(ApplyExport(value, *spec));
        Keep(*spec, "export", value);
        return {};
      });
}

void Builder::AddPlaces() {
  for (const auto& [name, letter, help] :
       {std::tuple("nodelist", 'w', "Hosts to run on: n[1-4,7]; sets the number of nodes if --nodes is not given"),
        std::tuple("exclude", 'x', "Hosts to avoid: n[1-4,7]")}) {
    AddKept(name, letter, "HOSTS", help, [option = std::string(name), spec = spec_](std::string_view value) -> Status {
      // An empty value removes a list that was given before.
      if (value.empty() && !slurm::Value(*spec, option)) return InvalidArgument("the list of hosts is empty");
      DIVVY_TRY([[maybe_unused]] const std::vector<std::string> names, slurm::ParseHosts(option, value));
      return {};
    });
  }
}

void Builder::AddClientSide() {
  // Options for the command sbatch itself, not for the job. The command removes their labels before the submission.
  JobSpec* spec = spec_;
  const auto flag = [&](std::string_view name, char letter, std::string_view help) {
    Add(name, letter, Takes::kNothing, "", help, [spec, name](std::string_view) -> Status {
      Keep(*spec, "client." + std::string(name), "1");
      return {};
    });
  };
  flag("wait", 'W', "Wait until the job has ended and return its exit code");
  flag("parsable", 0, "Print only the job id");
  flag("test-only", 0, "Check the job without submitting it");
  flag("quiet", 'Q', "Print errors only");
  Add("verbose", 'v', Takes::kNothing, "", "Print the job's id and where it starts; twice: how the options are read",
      [spec](std::string_view) -> Status {
        Keep(*spec, "client.verbose", std::to_string(slurm::Number(*spec, "client.verbose").value_or(0) + 1));
        return {};
      });
  Add("wrap", 0, Takes::kValue, "COMMAND", "Run this shell command instead of a script",
      [spec](std::string_view value) -> Status {
        if (value.empty()) return InvalidArgument("the command is empty");
        Keep(*spec, "client.wrap", value);
        return {};
      });
}

}  // namespace

std::vector<Option> SbatchOptions(JobSpec& spec, const ParseContext& around) { return Builder(spec, around).Build(); }

}  // namespace divvy::dialect
