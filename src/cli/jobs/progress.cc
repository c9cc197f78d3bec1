// divvy progress: reports how far a job is.
#include <cstdlib>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/commands.h"

namespace divvy::cli {
namespace {

std::string JobVariable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// "0.35", "35%", "1200/100000".
Result<wire::ProgressRequest> RequestOf(std::string_view text) {
  const auto refused = [&] {
    return InvalidArgument("'" + std::string(text) +
                           "' is not a progress value; write a fraction (0.35, 35%) or steps (1200/100000)");
  };
  wire::ProgressRequest request;
  if (const auto slash = text.find('/'); slash != std::string_view::npos) {
    const auto step = ParseInteger(Trim(text.substr(0, slash)));
    const auto steps = ParseInteger(Trim(text.substr(slash + 1)));
    if (!step || !steps || *steps < 1 || *step < 0 || *step > *steps) return refused();
    request.step = *step;
    request.steps = *steps;
    return request;
  }
  const bool is_percent = text.ends_with('%');
  const auto number = ParseNumber(is_percent ? text.substr(0, text.size() - 1) : text);
  const double part = number.value_or(-1) / (is_percent ? 100 : 1);
  if (!(part >= 0 && part <= 1)) return refused();
  request.fraction = part;
  return request;
}

}  // namespace

int ProgressMain(const Words& words) {
  if (words.empty() || words.size() > 2)
    return Fail(InvalidArgument("usage: divvy progress FRACTION|STEP/STEPS [ID]; inside a job, ID is not needed"));
  DIVVY_TRY_OR_FAIL(auto request, RequestOf(words.front()));
  const std::string own = JobVariable("DIVVY_JOB_ID");
  const std::string id = words.size() == 2 ? words.back() : own;
  if (id.empty())
    return Fail(
        InvalidArgument("not inside a divvy job (DIVVY_JOB_ID is not set); name a job: divvy progress 0.35 17"));
  if (id == own) request.attempt = ParseInteger(JobVariable("DIVVY_ATTEMPT")).value_or(0);
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  const auto answer = api.ReportProgress(id, request);
  return answer ? 0 : Fail(answer.error());
}

}  // namespace divvy::cli
