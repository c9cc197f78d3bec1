#include "daemon/check_spec.h"

#include "dialect/job_options.h"

namespace divvy {

Status CheckSpec(const JobSpec& spec) {
  DIVVY_CHECK(dialect::CheckComplete(spec));
  if (spec.directory.empty() || spec.directory.front() != '/')
    return InvalidArgument("spec.directory: give an absolute path");
  if (spec.request.gpus < 0 || spec.request.cpus < 0 || spec.request.memory < Bytes(0) ||
      spec.request.gpu_memory < Bytes(0)) {
    return InvalidArgument("spec.request: a quantity is negative");
  }
  if (spec.time_limit < Duration(0) || spec.grace < JobSpec().grace || spec.retry_delay < Duration(0))
    return InvalidArgument("spec: a duration is negative");
  if (spec.priority < -dialect::kMostPriority || spec.priority > dialect::kMostPriority)
    return InvalidArgument("spec.priority: give a whole number within a million");
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
