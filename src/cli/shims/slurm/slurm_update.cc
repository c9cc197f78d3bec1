#include "cli/shims/slurm/slurm_update.h"

#include <algorithm>
#include <array>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_common.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/options/node_options.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_request.h"

namespace divvy::cli::slurm {
namespace {

namespace options = divvy::dialect::slurm;

using JobOf = std::function<Result<wire::JobDetail>(const std::string& id)>;

Status ReadTimeLimit(std::string_view value, const JobOf& job_of, UpdateWish& wish) {
  const bool is_relative = value.starts_with('+') || value.starts_with('-');
  const auto limit = dialect::ParseSlurmTime(is_relative ? value.substr(1) : value);
  if (!limit) return InvalidArgument("Invalid TimeLimit value: " + limit.error().message);
  double seconds = ToSeconds(*limit);
  if (is_relative) {
    if (wish.update.select.ids.empty())
      return InvalidArgument("TimeLimit=" + std::string(value) + " needs JobId before it");
    DIVVY_TRY(const wire::JobDetail job, job_of(wish.update.select.ids.front()));
    if (job.request.time_limit_s <= 0)
      return InvalidArgument("the job has no time limit to change by " + std::string(value));
    seconds = job.request.time_limit_s + (value.front() == '+' ? seconds : -seconds);
    if (seconds <= 0) return InvalidArgument("TimeLimit=" + std::string(value) + " leaves no time");
  }
  wish.update.time_limit_s = seconds;
  return {};
}

Status ReadPriority(std::string_view name, std::string_view value, UpdateWish& wish) {
  // Priority 0 is Slurm's way to hold a job; another value releases it.
  if (name == "priority" && value == "0") {
    wish.holds = true;
    return {};
  }
  if (name == "priority" && (value == "-1" || EqualsIgnoringCase(value, "infinite"))) {
    wish.holds = false;
    return {};
  }
  std::int64_t number = 1'000'000'000;
  if (!EqualsIgnoringCase(value, "top")) {
    DIVVY_TRY(number, options::ParseCount(value, -1'000'000'000, 4'294'967'294));
  }
  // The range of priorities in Slurm is larger than in divvy.
  wish.update.priority =
      std::clamp<std::int64_t>(name == "nice" ? -number : number, -dialect::kMostPriority, dialect::kMostPriority);
  return {};
}

/// "" removes the hosts.
Result<std::vector<std::string>> ReadHosts(std::string_view value) {
  if (value.empty()) return std::vector<std::string>();
  return dialect::ReadNodeList(value);
}

Status ReadOne(std::string_view name, std::string_view value, const dialect::ParseContext& around, const JobOf& job_of,
               UpdateWish& wish) {
  wire::JobUpdate& update = wish.update;
  if (name == "jobid" || name == "job") {
    DIVVY_TRY(update.select.ids, SplitJobIds(value));
  } else if (name == "timelimit") {
    return ReadTimeLimit(value, job_of, wish);
  } else if (name == "priority" || name == "nice") {
    return ReadPriority(name, value, wish);
  } else if (name == "name" || name == "jobname") {
    update.name = value;
  } else if (name == "comment") {
    update.comment = value;
  } else if (name == "arraytaskthrottle") {
    DIVVY_TRY(update.array_at_once, options::ParseCount(value, 0, 4'000'000));
  } else if (name == "numcpus" || name == "mincpusnode") {
    DIVVY_TRY(update.cpus, options::ParseCount(value, 0, 100'000));
  } else if (name == "minmemorynode") {
    DIVVY_TRY(const Bytes size, dialect::ParseSize(value, 1 << 20));
    update.memory_bytes = size.count();
  } else if (name == "gres" || name == "trespernode") {
    DIVVY_TRY(const options::GresOption ask, options::ParseGres(value));
    update.gpus = ask.gpus ? ask.gpus->count : 0;
    if (ask.gpus && !ask.gpus->type.empty()) update.gpu_type = options::GpuTypeTerms(ask.gpus->type);
  } else if (name == "features") {
    DIVVY_TRY(const options::ConstraintOption ask, options::ParseConstraint(value));
    update.gpu_type = ask.gpu_type;
    update.constraint = ask.machines;
  } else if (name == "numnodes") {
    DIVVY_TRY(const options::NodeRange range, options::ParseNodes(value));
    update.nodes = range.least;
  } else if (name == "nodelist" || name == "reqnodelist") {
    DIVVY_TRY(update.node_list, ReadHosts(value));
  } else if (name == "excnodelist") {
    DIVVY_TRY(update.excluded_nodes, ReadHosts(value));
  } else if (name == "dependency") {
    std::vector<std::string> list;
    for (const std::string_view one : Split(value, ',')) {
      if (!one.empty()) list.emplace_back(one);
    }
    update.dependencies = std::move(list);
  } else if (name == "starttime" || name == "eligibletime") {
    DIVVY_TRY(const Time begin, dialect::ParseMoment(value, around.now, around.utc_offset));
    update.begin = ToSeconds(begin);
  } else if (name == "deadline") {
    DIVVY_TRY(const Time end_by, dialect::ParseMoment(value, around.now, around.utc_offset));
    update.end_by = ToSeconds(end_by);
  } else if (name == "stdout") {
    update.output = value;
  } else if (name == "stderr") {
    update.error = value;
  } else if (name == "stdin") {
    update.input = value;
  } else if (name == "workdir") {
    update.directory = value;
  } else if (name == "account") {
    update.account = value;
  } else if (name == "partition") {
    update.pool = value;
  } else if (name == "requeue") {
    DIVVY_TRY(const std::int64_t requeues, options::ParseCount(value, 0, 1));
    update.requeues_after_reboot = requeues == 1;
  } else if (name == "numtasks") {
    DIVVY_TRY(update.tasks, options::ParseCount(value, 1, 65'536));
  } else {
    constexpr std::array<std::string_view, 5> kNothing = {"qos", "reservation", "licenses", "wckey", "mailuser"};
    if (std::ranges::find(kNothing, name) == kNothing.end())
      return InvalidArgument("Update of this parameter is not supported: " + std::string(name));
    wish.notes.push_back(std::string(name) + "=" + std::string(value) + " has no effect in divvy; ignored");
  }
  return {};
}

}  // namespace

Result<UpdateWish> ReadUpdate(const std::vector<std::string>& words, const dialect::ParseContext& around,
                              const JobOf& job_of) {
  UpdateWish wish;
  for (std::size_t i = 0; i < words.size(); ++i) {
    // "ArrayTaskThrottle 4" without "=", as in Slurm.
    const bool is_pair =
        words[i].find('=') == std::string::npos && i + 1 < words.size() && words[i + 1].find('=') == std::string::npos;
    const std::string word = is_pair ? words[i] + "=" + words[i + 1] : words[i];
    if (is_pair) ++i;
    const auto equals = word.find_first_of("=");
    if (equals == std::string::npos || equals == 0)
      return InvalidArgument("'" + word + "' must have the form NAME=VALUE");
    std::string name = ToLower(word.substr(0, equals));
    std::string value = word.substr(equals + 1);
    // "TimeLimit+=30".
    if (name.ends_with('+') || name.ends_with('-')) {
      value.insert(value.begin(), name.back());
      name.pop_back();
    }
    if (name == "nodename")
      return InvalidArgument("NodeName comes first: scontrol update NodeName=n1 State=drain Reason=...");
    if (name == "partitionname" || name == "reservationname") {
      return InvalidArgument(name + ": cannot be changed with scontrol here; use divvy node label or divvy reserve");
    }
    DIVVY_CHECK(ReadOne(name, value, around, job_of, wish));
  }
  if (wish.update.select.ids.empty()) return InvalidArgument("No job specified; write JobId=17");
  return wish;
}

Result<NodeUpdate> ReadNodeUpdate(const std::vector<std::string>& words) {
  NodeUpdate update;
  for (const std::string& word : words) {
    const auto equals = word.find('=');
    if (equals == std::string::npos || equals == 0)
      return InvalidArgument("'" + word + "' must have the form NAME=VALUE");
    const std::string name = ToLower(word.substr(0, equals));
    const std::string value = word.substr(equals + 1);
    if (name == "nodename") {
      DIVVY_TRY(update.request.names, HostNames({value}));
    } else if (name == "reason") {
      update.request.reason = value;
    } else if (name == "state") {
      const std::string state = ToLower(value);
      if (state == "drain") update.verb = "drain";
      if (state == "resume" || state == "undrain" || state == "idle") update.verb = "resume";
      if (update.verb.empty())
        return InvalidArgument("State=" + value +
                               ": write State=DRAIN or State=RESUME; divvy node has what else there is");
    } else {
      return InvalidArgument("Update of this parameter is not supported: " + name +
                             " (divvy node label sets features)");
    }
  }
  if (update.request.names.empty()) return InvalidArgument("No node specified; write NodeName=n1");
  if (update.verb.empty()) return InvalidArgument("write State=DRAIN Reason=... or State=RESUME");
  if (update.verb == "drain" && update.request.reason.empty())
    return InvalidArgument("You must specify a reason when DRAINING a node. Update denied");
  return update;
}

}  // namespace divvy::cli::slurm
