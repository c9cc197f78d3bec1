#include "cli/reports/waste_text.h"

#include <utility>

#include "cli/client/job_text.h"
#include "cli/client/shown_answer.h"
#include "cli/reports/report_show.h"
#include "model/gpus/gpu_count_text.h"

namespace divvy::cli {

wire::WasteAnswer AskWaste(Api& api) {
  const auto json = api.Raw("GET", "/v1/waste", "");
  if (!json) return {};
  auto answer = DecodeShown<wire::WasteAnswer>(*json);
  return answer ? *std::move(answer) : wire::WasteAnswer();
}

WastedGpus WastedBy(const wire::WasteAnswer& answer) {
  WastedGpus wasted;
  for (const wire::WastefulJob& job : answer.jobs) wasted[job.id] = job.wasted_gpus;
  return wasted;
}

std::string WasteCell(const WastedGpus& wasted, JobId id) {
  const auto found = wasted.find(id);
  return found == wasted.end() ? "" : GpuCountText(found->second);
}

std::vector<wire::ListedJob> JobsWithWaste(std::vector<wire::JobView> jobs, const WastedGpus& wasted) {
  std::vector<wire::ListedJob> listed;
  listed.reserve(jobs.size());
  for (wire::JobView& job : jobs) {
    const auto found = wasted.find(job.id);
    listed.push_back({std::move(job), found == wasted.end() ? 0 : found->second});
  }
  return listed;
}

std::optional<wire::JobWaste> AskJobWaste(Api& api, JobId id) {
  const auto json = api.Raw("GET", "/v1/jobs/" + ToString(id) + "/waste", "");
  if (!json) return std::nullopt;
  auto waste = DecodeShown<wire::JobWaste>(*json);
  return waste && waste->gpu_hours > 0 && !waste->is_small ? std::optional(*std::move(waste)) : std::nullopt;
}

std::vector<std::string> WasteOf(const wire::JobWaste& waste) {
  std::string lost = "lost " + kForPeople.Hours(waste.lost_gpu_hours) + " of its " + kForPeople.Hours(waste.gpu_hours) +
                     " GPU-hours (" + kForPeople.Share(waste.lost_share) + ")";
  if (waste.lost_cost) lost += " at a cost of " + Fixed(*waste.lost_cost, 2);
  std::vector<std::string> lines = {std::move(lost)};
  for (const wire::WasteFinding& finding : waste.findings) lines.push_back(finding.text + "; " + finding.remedy);
  return lines;
}

std::string WasteLine(const wire::WasteAnswer& answer, const std::function<bool(JobId)>& counted) {
  std::size_t jobs = 0;
  double gpus = 0;
  for (const wire::WastefulJob& job : answer.jobs) {
    if (!counted(job.id)) continue;
    ++jobs;
    gpus += job.wasted_gpus;
  }
  if (jobs == 0) return "";
  return std::to_string(jobs) + (jobs == 1 ? " job wastes " : " jobs waste ") + CountedGpus(gpus) +
         "; divvy report waste";
}

std::vector<std::string> WasteOf(const wire::WasteAnswer& answer, JobId id) {
  std::vector<std::string> lines;
  for (const wire::WastefulJob& job : answer.jobs) {
    if (job.id != id) continue;
    for (const wire::WasteFinding& finding : job.findings) {
      std::string line = finding.text + "; " + finding.remedy;
      if (lines.empty()) {
        line += " (lost so far: " + kForPeople.Hours(job.lost_gpu_hours) + " GPU-hours";
        if (job.lost_cost) line += " at a cost of " + Fixed(*job.lost_cost, 2);
        line += ")";
      }
      lines.push_back(std::move(line));
    }
    if (job.action_time) {
      lines.push_back("is " + job.action_text + " at " + When(job.action_time) + " unless it uses its GPUs (" +
                      std::to_string(job.warnings) + " of " + std::to_string(job.max_warnings) + " warnings given)");
    }
  }
  return lines;
}

}  // namespace divvy::cli
