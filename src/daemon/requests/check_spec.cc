#include "daemon/requests/check_spec.h"

#include "base/utf8.h"
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

}  // namespace

Status CheckSpec(const JobSpec& spec) {
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
