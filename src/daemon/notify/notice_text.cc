#include "daemon/notify/notice_text.h"

#include <algorithm>
#include <cstdio>
#include <ctime>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "model/gpus/gpu_count_text.h"
#include "platform/net/web_post.h"

namespace divvy {
namespace {

std::string OnMachine(const std::string& node) { return node.empty() ? "" : " on " + node; }

/// Lists all nodes of a gang if they are few.
std::string OnMachines(const JobRecord& record) {
  constexpr std::size_t kNamed = 3;
  if (record.gang.size() < 2) return OnMachine(record.node);
  const bool have_names = std::ranges::none_of(record.gang, &std::string::empty, &NodeAllocation::node);
  if (!have_names || record.gang.size() > kNamed) return " on " + std::to_string(record.gang.size()) + " nodes";
  std::string text;
  for (std::size_t i = 0; i < record.gang.size(); ++i)
    text += (i == 0 ? " on " : i + 1 < record.gang.size() ? ", " : " and ") + record.gang[i].node;
  return text;
}

std::string WithGpus(const JobRecord& record) {
  const bool has_slices = record.gpu_slice.any();
  const double gpus = has_slices ? GpuCountOf(record) : GpusWorthOf(record);
  if (gpus <= 0) return "";
  if (!has_slices) return " with " + CountedGpus(gpus);
  return " with " + (gpus == 1 ? "" : GpuCountText(gpus) + " x ") + record.gpu_slice.profile;
}

/// Returns the id in notifications; for an array, the array's id without the list of its waiting elements.
std::string NumberOf(const JobRecord& record) {
  return record.array_count > 0 ? ToString(record.id) : DisplayId(record);
}

std::string RanText(const JobRecord& record) {
  if (record.started == kNoTime || record.ended <= record.started) return "";
  const Duration seconds = std::chrono::duration_cast<std::chrono::seconds>(record.ended - record.started);
  return " after " + dialect::FormatDuration(seconds);
}

std::string UtcText(double time) {
  const auto seconds = static_cast<std::time_t>(time);
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &utc);
  return text;
}

std::string GpuText(const wire::NoticeGpu& gpu) {
  return "GPU " + std::to_string(gpu.index) + OnMachine(gpu.node) + (gpu.model.empty() ? "" : " (" + gpu.model + ")");
}

std::string Line(const std::string& name, const std::string& value) {
  if (value.empty()) return "";
  return name + std::string(name.size() < 10 ? 10 - name.size() : 1, ' ') + value + "\n";
}

/// Returns "NAME=value" without zero bytes, which would end the variable.
std::string Entry(const std::string& name, std::string value) {
  std::erase(value, '\0');
  return "DIVVY_" + name + "=" + value;
}

}  // namespace

wire::NoticeJob NoticeJobOf(const JobRecord& record) {
  wire::NoticeJob job;
  job.id = record.id;
  job.display_id = NumberOf(record);
  job.name = record.name;
  job.user = record.user.name;
  job.team = record.team;
  job.state = Name(record.state);
  job.reason = record.reason;
  job.node = record.node;
  job.gpus = record.started == kNoTime || record.array_count > 0 ? record.request.gpus : GpusWorthOf(record);
  job.attempt = record.attempt;
  if (IsFinal(record.state) && record.exit && record.exit->is_known) job.exit_code = record.exit->code;
  job.submit_time = ToSeconds(record.submitted);
  if (record.started != kNoTime) job.start_time = ToSeconds(record.started);
  if (record.ended != kNoTime) job.end_time = ToSeconds(record.ended);
  return job;
}

std::string JobText(const JobRecord& record) {
  return "job " + NumberOf(record) + (record.name.empty() ? "" : " (" + record.name + ")") + " of " + record.user.name;
}

std::string StartText(const JobRecord& record) {
  if (record.array_count > 0)
    return JobText(record) + " has started: an array of " + std::to_string(record.array_count);
  return JobText(record) + " has started" + OnMachines(record) + WithGpus(record);
}

std::string EndedText(const JobRecord& record) {
  if (record.array_count > 0) {
    return JobText(record) + " has ended: " + Plural(static_cast<std::int64_t>(record.array_succeeded), "element") +
           " succeeded, " + std::to_string(record.array_failed) + " failed, " + std::to_string(record.array_cancelled) +
           " cancelled";
  }
  std::string how = std::string(Name(record.state));
  if (record.state == JobState::kTimedOut) how = "ran out of time";
  if (record.state == JobState::kCancelled) how = "was cancelled";
  if (record.state == JobState::kLost) how = "was lost";
  std::string text = JobText(record) + " " + how + RanText(record) + OnMachines(record);
  const bool has_reason = record.state != JobState::kSucceeded && !record.reason.empty();
  return has_reason ? text + ": " + record.reason : text;
}

std::string RequeueText(const JobRecord& record, std::string_view why) {
  return JobText(record) + " is queued again" + (why.empty() ? "" : ": " + std::string(why));
}

std::string LostText(const wire::NoticeWaste& lost) {
  char text[96];
  // Small losses get a third decimal, as in reports; a short run on many GPUs still costs something.
  const bool is_little = lost.lost_gpu_hours > 0 && lost.lost_gpu_hours < 0.995;
  const int length =
      std::snprintf(text, sizeof text, "%.*f GPU-hours lost so far", is_little ? 3 : 2, lost.lost_gpu_hours);
  if (lost.lost_cost)
    std::snprintf(text + length, sizeof text - static_cast<std::size_t>(length), ", at a cost of %.2f",
                  *lost.lost_cost);
  return text;
}

std::vector<GpuTrouble> TroublesOf(const Controller& controller, NodeIndex node) {
  std::vector<GpuTrouble> troubles;
  const auto& machine = controller.scheduler().nodes()[node];
  for (std::size_t i = 0; i < machine.availability.size() && i < machine.capacity.gpus.size(); ++i) {
    const GpuAvailability& state = machine.availability[i];
    if (state.fault.empty() && state.unmanaged.empty()) continue;
    const GpuFacts& facts = machine.capacity.gpus[i];
    const auto index = static_cast<std::int64_t>(i);
    const std::string name = controller.NodeName(node);
    troubles.push_back({{name, index, state.fault, state.unmanaged},
                        {name, index, facts.uuid, facts.model, state.fault.empty() ? state.unmanaged : state.fault}});
  }
  return troubles;
}

std::string FencedText(const GpuTrouble& trouble) {
  return GpuText(trouble.gpu) + " is fenced and takes no new jobs: " + trouble.told.fenced;
}

std::string UnmanagedText(const GpuTrouble& trouble) {
  return GpuText(trouble.gpu) + " is used outside divvy, by " + trouble.told.unmanaged;
}

std::string MailBody(const wire::Notice& notice) {
  std::string text = notice.text + "\n\n";
  if (notice.job) {
    const wire::NoticeJob& job = *notice.job;
    text += Line("job", job.display_id) + Line("name", job.name) + Line("state", job.state) +
            Line("reason", job.reason) + Line("node", job.node);
    if (job.exit_code) text += Line("exit code", std::to_string(*job.exit_code));
    if (job.start_time > 0) text += Line("started", UtcText(job.start_time));
    if (job.end_time > 0) text += Line("ended", UtcText(job.end_time));
    text += Line("more", "divvy show " + job.display_id + "; divvy logs " + job.display_id);
  }
  return text + Line("from", "divvy on " + notice.host) + Line("time", UtcText(notice.time));
}

std::vector<std::string> EnvironmentOf(const wire::Notice& notice) {
  std::vector<std::string> entries = {Entry("TEXT", notice.text), Entry("HOST", notice.host)};
  if (notice.job) {
    const wire::NoticeJob& job = *notice.job;
    entries.insert(entries.end(),
                   {Entry("JOB_ID", job.display_id), Entry("JOB_NAME", job.name), Entry("JOB_USER", job.user),
                    Entry("JOB_STATE", job.state), Entry("JOB_NODE", job.node)});
    if (job.exit_code) entries.push_back(Entry("JOB_EXIT_CODE", std::to_string(*job.exit_code)));
  }
  if (notice.waste) {
    entries.push_back(Entry("LOST_GPU_HOURS", std::to_string(notice.waste->lost_gpu_hours)));
    if (notice.waste->lost_cost) entries.push_back(Entry("LOST_COST", std::to_string(*notice.waste->lost_cost)));
  }
  if (notice.gpu) {
    entries.insert(entries.end(), {Entry("GPU", std::to_string(notice.gpu->index)), Entry("GPU_NODE", notice.gpu->node),
                                   Entry("GPU_UUID", notice.gpu->uuid)});
  }
  return entries;
}

bool IsNamedHost(const std::vector<std::string>& names, const std::string& url) {
  const auto parsed = ParseWebUrl(url);
  if (!parsed) return false;
  const std::string host = ToLower(parsed->host);
  return std::ranges::any_of(names, [&](const std::string& name) {
    return name.starts_with("*.") ? host.ends_with(std::string_view(name).substr(1)) : host == name;
  });
}

Status CheckDomain(const std::vector<std::string>& domains, const std::string& address) {
  if (domains.empty()) return {};
  const auto at = address.find('@');
  // A name without a domain is a user of this machine.
  if (at == std::string::npos) return {};
  const std::string domain = ToLower(address.substr(at + 1));
  if (std::ranges::find(domains, domain) != domains.end()) return {};
  return PermissionDenied("mail is limited to addresses of " + Join(domains, ", ") +
                          " here: mail_domains in [notify] of divvy.toml");
}

}  // namespace divvy
