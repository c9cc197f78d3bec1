// divvy checkpoint: lets an elastic job report a checkpoint.
#include <cstdio>
#include <cstdlib>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"

namespace divvy::cli {
namespace {

constexpr int kChanged = 3;

// Reports an error with exit code 1. Exit code 3 would mean that the job's GPUs have changed.
int FailWithOne(const Error& error) {
  static_cast<void>(Fail(error));
  return 1;
}

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

int CheckpointMain(const Words& words) {
  if (words.size() > 1 || (!words.empty() && words.front().starts_with("-")))
    return FailWithOne(InvalidArgument("write divvy checkpoint ID; inside a job the id may be omitted"));
  const std::string own = Variable("DIVVY_JOB_ID");
  const std::string id = words.empty() ? own : words.front();
  if (id.empty())
    return FailWithOne(
        InvalidArgument("not inside a divvy job (DIVVY_JOB_ID is not set); name a job: divvy checkpoint 17"));
  wire::CheckpointRequest request;
  if (id == own) request.attempt = ParseInteger(Variable("DIVVY_ATTEMPT")).value_or(0);
  auto api = Api::Connect();
  if (!api) return FailWithOne(api.error());
  const auto answer = api->Checkpoint(id, request);
  if (!answer) return FailWithOne(answer.error());
  std::printf("%s\n", answer->gpus.c_str());
  return answer->has_changed ? kChanged : 0;
}

}  // namespace divvy::cli
