#include "daemon/requests/check_spec.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "base/text.h"
#include "base/utf8.h"
#include "daemon/notify/notify_registry.h"
#include "dialect/options/job_options.h"

namespace divvy {
namespace {

/// Fails with kInvalidArgument, naming the first public field that contains a control character.
Status CheckTexts(const JobSpec& spec) {
  struct Field {
    std::string_view name;
    std::string_view text;
  };
  std::vector<Field> fields = {{"name", spec.name},           {"name_template", spec.name_template},
                               {"comment", spec.comment},     {"group", spec.group},
                               {"project", spec.project},     {"team", spec.team},
                               {"account", spec.account},     {"pool", spec.pool},
                               {"directory", spec.directory}, {"output", spec.output},
                               {"error", spec.error},         {"input", spec.input}};
  for (const auto& [key, value] : spec.labels) {
    fields.push_back({"labels", key});
    fields.push_back({"labels", value});
  }
  for (const Field& field : fields) {
    if (const auto control = FirstControl(field.text)) {
      return InvalidArgument("spec." + std::string(field.name) + ": it holds the control character " + *control +
                             "; one line of text without control characters is allowed");
    }
  }
  return {};
}

/// Everything that is stored with each job besides the script, arguments, environment and parameters.
constexpr std::size_t kMostTextBytes = 256 << 10;
/// Names of parameters and pools are compared with each other, names of nodes with those of all nodes, and each
/// dependency may take a read of the store.
constexpr std::size_t kMostParameters = 64;
constexpr std::size_t kMostPools = 32;
constexpr std::size_t kMostNodeNames = 4096;
constexpr std::size_t kMostDependencies = 1024;
constexpr std::size_t kMostNotes = 256;

/// The bytes of labels, notes, lists of nodes and other texts, and some for each dependency.
std::size_t TextBytes(const JobSpec& spec) {
  constexpr std::size_t kOfDependency = 32;
  const auto of_labels = [](const std::map<std::string, std::string>& labels) {
    std::size_t bytes = 0;
    for (const auto& [key, value] : labels) bytes += key.size() + value.size();
    return bytes;
  };
  std::size_t bytes = of_labels(spec.labels) + kOfDependency * spec.dependencies.size() + spec.request.gpu_type.size() +
                      spec.request.constraint.size() + spec.name_template.size();
  for (const auto* list : {&spec.notes, &spec.request.node_list, &spec.request.excluded_nodes}) {
    for (const std::string& text : *list) bytes += text.size();
  }
  for (const Component& other : spec.request.others) {
    bytes +=
        sizeof other + of_labels(other.labels) + other.gpu_type.size() + other.constraint.size() + other.pool.size();
    for (const auto* list : {&other.node_list, &other.excluded_nodes}) {
      for (const std::string& text : *list) bytes += text.size();
    }
  }
  for (const std::string* text : {&spec.group, &spec.project, &spec.team, &spec.account, &spec.pool, &spec.directory,
                                  &spec.output, &spec.error, &spec.input}) {
    bytes += text->size();
  }
  return bytes;
}

/// The names in the lists of pools of all components, each name once.
std::size_t PoolCount(const JobSpec& spec) {
  std::set<std::string_view> names;
  const auto add = [&](std::string_view list) {
    for (const std::string_view name : Split(list, ',')) names.insert(Trim(name));
  };
  add(spec.pool);
  for (const Component& other : spec.request.others) add(other.pool);
  names.erase("");
  return names.size();
}

std::size_t NodeNameCount(const Request& request) {
  std::size_t count = request.node_list.size() + request.excluded_nodes.size();
  for (const Component& other : request.others) count += other.node_list.size() + other.excluded_nodes.size();
  return count;
}

Status CheckCount(std::string_view field, std::size_t count, std::string_view what, std::size_t most) {
  if (count <= most) return {};
  return InvalidArgument("spec." + std::string(field) + ": there are " + std::to_string(count) + " " +
                         std::string(what) + ", but a job may have at most " + std::to_string(most));
}

/// Limits what one request can make the daemon store and compare. Takes linear time.
Status CheckSizes(const JobSpec& spec) {
  if (const std::size_t bytes = TextBytes(spec); bytes > kMostTextBytes) {
    return InvalidArgument("spec: labels, notes, node lists, dependencies and other texts have " +
                           std::to_string(bytes) + " bytes together, but a job may have at most " +
                           std::to_string(kMostTextBytes));
  }
  DIVVY_CHECK(CheckCount("parameters", spec.parameters.size(), "parameters", kMostParameters));
  DIVVY_CHECK(CheckCount("pool", PoolCount(spec), "pools", kMostPools));
  DIVVY_CHECK(CheckCount("request", NodeNameCount(spec.request), "names of nodes", kMostNodeNames));
  DIVVY_CHECK(CheckCount("dependencies", spec.dependencies.size(), "dependencies", kMostDependencies));
  DIVVY_CHECK(CheckCount("notes", spec.notes.size(), "notes", kMostNotes));
  const auto notify = WishOf(spec).notify;
  return CheckCount("labels", notify ? notify->to.size() : 0, "receivers of notifications",
                    NotifyRegistry::kMostOfAJob);
}

}  // namespace

Status CheckSpec(const JobSpec& spec) {
  DIVVY_CHECK(CheckSizes(spec));
  DIVVY_CHECK(dialect::CheckComplete(spec));
  DIVVY_CHECK(CheckTexts(spec));
  if (spec.directory.empty() || spec.directory.front() != '/')
    return InvalidArgument("spec.directory: give an absolute path");
  if (spec.request.gpus < 0 || spec.request.cpus < 0 || spec.request.memory < Bytes(0) ||
      spec.request.gpu_memory < Bytes(0)) {
    return InvalidArgument("spec.request: a quantity is negative");
  }
  if (spec.time_limit < Duration(0) || spec.grace < JobSpec().grace || spec.retry_delay < Duration(0))
    return InvalidArgument("spec: a duration is negative");
  if (spec.priority < -dialect::kMostPriority || spec.priority > dialect::kMostPriority)
    return InvalidArgument("spec.priority: give a whole number from -1000000 to 1000000");
  std::size_t environment = 0;
  for (const std::string& variable : spec.capture.environment) environment += variable.size() + 1;
  for (const std::string& variable : spec.extra_environment) environment += variable.size() + 1;
  if (environment > kMostEnvironmentBytes) {
    return InvalidArgument("the environment has " + std::to_string(environment) +
                           " bytes, but a job may have at most " + std::to_string(kMostEnvironmentBytes) +
                           "; unset large variables, or leave them out with --export");
  }
  if (spec.name.size() > 1024 || spec.comment.size() > 65536)
    return InvalidArgument("spec: the name may have 1024 characters and the comment 65536");
  return {};
}

std::string DefaultName(const JobSpec& spec) {
  const std::string& word = spec.command.empty() ? spec.script.substr(0, 0) : spec.command.front();
  if (word.empty()) return "script";
  const auto slash = word.rfind('/');
  return slash == std::string::npos || slash + 1 == word.size() ? word : word.substr(slash + 1);
}

}  // namespace divvy
