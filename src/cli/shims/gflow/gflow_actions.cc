// gcancel.
#include <algorithm>
#include <cstdio>
#include <set>

#include "base/text.h"
#include "cli/client/api.h"
#include "cli/client/command.h"
#include "cli/shims/gflow/gflow.h"
#include "cli/shims/gflow/gflow_words.h"

namespace divvy::cli {
namespace {

using dialect::Option;

/// Queued jobs that depend on one of `ids`, directly or not: they could no longer start, or would be cancelled too.
std::vector<const wire::JobView*> Dependants(const std::vector<wire::JobView>& jobs, std::set<std::string> ids) {
  std::vector<const wire::JobView*> out;
  for (bool grows = true; grows;) {
    grows = false;
    for (const wire::JobView& job : jobs) {
      bool waits = std::any_of(job.dependencies.begin(), job.dependencies.end(), [&](const std::string& dependency) {
        auto colon = dependency.find(':');
        return colon != std::string::npos && !dependency.starts_with("afterany") &&
               !dependency.starts_with("afternotok") && ids.contains(dependency.substr(colon + 1));
      });
      if (!waits || !ids.insert(ToString(job.id)).second) continue;
      out.push_back(&job);
      grows = true;
    }
  }
  return out;
}

int DryRun(Api& api, const std::vector<std::string>& wanted) {
  wire::JobSelector selector;
  selector.ids = wanted;
  DIVVY_TRY_OR_FAIL(auto jobs, api.Jobs(selector));
  wire::JobSelector all;
  all.user = "all";
  DIVVY_TRY_OR_FAIL(auto waiting, api.Jobs(all));
  std::set<std::string> ids;
  for (const wire::JobView& job : jobs) {
    std::printf("Would cancel job %s (%s), %s\n", job.display_id.c_str(), job.name.c_str(), job.state.c_str());
    ids.insert(ToString(job.id));
  }
  for (const wire::JobView* job : Dependants(waiting, ids)) {
    std::printf("  job %s (%s) waits for it: %s\n", job->display_id.c_str(), job->name.c_str(),
                Join(job->dependencies, ", ").c_str());
  }
  if (jobs.empty()) return Fail(NotFound("there is no job " + Join(wanted, ", ") + " to cancel"));
  return 0;
}

}  // namespace

int GcancelMain(const std::vector<std::string>& words) {
  if (words.size() == 2 && words[0] == "completion") return BecomeDivvy(words);
  bool is_dry_run = false, wants_help = false;
  std::string reported;
  std::vector<Option> table = {
      Option::Flag("dry-run", "Print which jobs would be cancelled, and which jobs depend on them", Sets(is_dry_run)),
      Option::Value("finish", "ID", "", Keeps(reported)).Hidden(),
      Option::Value("fail", "ID", "", Keeps(reported)).Hidden(),
      Option::Flag("help", 'h', "Print this", Sets(wants_help))};
  AddGlobalOptions(table);
  DIVVY_TRY_OR_FAIL(auto parsed, dialect::ParseOptions(table, words));
  if (wants_help) {
    std::fputs(UsageText("gcancel [--dry-run] IDS    (12 or 1-3,7)", table).c_str(), stdout);
    return 0;
  }
  if (!reported.empty()) {
    return Fail(FailedPrecondition("a job's end is never reported by hand: its exit code says how it ended"));
  }
  if (parsed.positional.empty())
    return Fail(InvalidArgument("which job? write: gcancel 12 (or 1-3,7, or @ for your last one)"));
  std::vector<std::string> ids;
  for (const std::string& word : parsed.positional) {
    auto part = ParseIdList(word);
    if (!part) return Fail(part.error());
    ids.insert(ids.end(), part->begin(), part->end());
  }
  DIVVY_TRY_OR_FAIL(auto api, Api::Connect());
  if (is_dry_run) return DryRun(api, ids);
  wire::ActionRequest request;
  request.select.ids = ids;
  DIVVY_TRY_OR_FAIL(auto answer, api.Cancel(request));
  int code = 0;
  for (const wire::ActionResult& result : answer.results) {
    if (result.is_done) {
      std::printf("Job %s cancelled.\n", result.display_id.c_str());
    } else {
      std::fprintf(stderr, "gcancel: job %s: %s\n", result.display_id.c_str(), result.message.c_str());
      code = 1;
    }
  }
  return code;
}

}  // namespace divvy::cli
