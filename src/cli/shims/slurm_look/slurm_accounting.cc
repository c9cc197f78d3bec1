#include "cli/shims/slurm_look/slurm_accounting.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/text.h"
#include "cli/shims/slurm_look/slurm_places.h"
#include "dialect/slurm/slurm_environment.h"

namespace divvy::cli::slurm {
namespace {

using Get = std::string (*)(const AccountRow&, const Scene&);

struct AccountField {
  std::string_view name;
  int width = 10;  // Negative: left-aligned.
  bool needs_detail = false;
  Get get = nullptr;
};

std::string StepSuffix(const AccountRow& r) { return r.is_step() ? "." + r.step : ""; }
std::string Id(const AccountRow& r, const Scene&) { return JobIdText(r.job) + StepSuffix(r); }
std::string RawId(const AccountRow& r, const Scene&) { return ToString(r.job.id) + StepSuffix(r); }
std::string JobName(const AccountRow& r, const Scene&) { return r.job.name; }
std::string OfJob(const AccountRow& r, const std::string& text) { return r.is_step() ? "" : text; }
std::string PartitionOf(const AccountRow& r, const Scene&) { return OfJob(r, slurm::Partition(r.job)); }
std::string Cpus(const AccountRow& r, const Scene&) { return std::to_string(CpusOf(r.job)); }
std::string AllocCpus(const AccountRow& r, const Scene&) {
  return r.job.start_time ? std::to_string(CpusOf(r.job)) : "0";
}
std::string Exit(const AccountRow& r, const Scene&) { return ExitCode(r.job); }
std::string Seconds(double seconds) { return std::to_string(static_cast<std::int64_t>(seconds)); }
std::string ElapsedText(const AccountRow& r, const Scene& s) { return LongElapsed(RunTime(r.job, s.now)); }
std::string ElapsedRaw(const AccountRow& r, const Scene& s) { return Seconds(RunTime(r.job, s.now)); }
std::string CpuTime(const AccountRow& r, const Scene& s) {
  return LongElapsed(RunTime(r.job, s.now) * static_cast<double>(CpusOf(r.job)));
}
std::string CpuTimeRaw(const AccountRow& r, const Scene& s) {
  return Seconds(RunTime(r.job, s.now) * static_cast<double>(CpusOf(r.job)));
}
std::string TotalCpu(const AccountRow& r, const Scene&) {
  return r.is_step() && !r.is_step_measured ? "" : LongElapsed(r.cpu_time_s);
}
std::string StepCpu(const AccountRow& r, const Scene&) { return r.is_measured_step() ? LongElapsed(r.cpu_time_s) : ""; }
std::string StartText(const AccountRow& r, const Scene&) { return Moment(r.job.start_time, "Unknown"); }
std::string EndText(const AccountRow& r, const Scene&) { return Moment(r.job.end_time, "Unknown"); }
std::string SubmitText(const AccountRow& r, const Scene&) { return Moment(r.job.submit_time, "Unknown"); }
std::string EligibleText(const AccountRow& r, const Scene&) { return Moment(r.job.eligible_time, "Unknown"); }
std::string Rss(const AccountRow& r, const Scene&) {
  return r.is_measured_step() && r.memory_peak_bytes > 0 ? std::to_string(r.memory_peak_bytes >> 10) + "K" : "";
}
double Waited(const AccountRow& r, const Scene& s) {
  return r.job.start_time.value_or(r.job.end_time.value_or(s.now)) - r.job.submit_time;
}
std::string Planned(const AccountRow& r, const Scene& s) { return LongElapsed(Waited(r, s)); }
std::string Limit(const AccountRow& r, const Scene&) {
  return OfJob(r, r.job.request.time_limit_s > 0 ? LongElapsed(std::ceil(r.job.request.time_limit_s)) : "UNLIMITED");
}
std::string LimitRaw(const AccountRow& r, const Scene&) {
  return OfJob(r, Seconds(std::ceil(r.job.request.time_limit_s / 60)));
}
std::string Nodes(const AccountRow& r, const Scene& s) { return HostListOf(r.job, s, "None assigned"); }
std::string ReqMem(const AccountRow& r, const Scene&) { return OfJob(r, Megabytes(MemoryOf(r.job))); }
std::string ReqTres(const AccountRow& r, const Scene&) { return OfJob(r, Tres(r.job, GpusAskedBy(r.job))); }
std::string AllocTres(const AccountRow& r, const Scene&) { return r.job.start_time ? Tres(r.job, GpusOf(r.job)) : ""; }
std::string ReqGres(const AccountRow& r, const Scene&) { return OfJob(r, GresOf(r.job, GpusAskedBy(r.job))); }
std::string AllocGres(const AccountRow& r, const Scene&) {
  return r.job.start_time ? GresOf(r.job, GpusOf(r.job)) : "";
}
std::string User(const AccountRow& r, const Scene&) { return OfJob(r, r.job.user); }
std::string Uid(const AccountRow& r, const Scene& s) { return OfJob(r, std::to_string(s.uid_of(r.job.user))); }
std::string Comment(const AccountRow& r, const Scene&) { return OfJob(r, r.job.comment); }
std::string Reason(const AccountRow& r, const Scene&) { return OfJob(r, ReasonCode(r.job)); }
std::string Priority(const AccountRow& r, const Scene&) { return OfJob(r, std::to_string(r.job.priority)); }
std::string Restarts(const AccountRow& r, const Scene&) { return OfJob(r, std::to_string(r.job.restarts)); }
std::string Account(const AccountRow& r, const Scene&) { return r.job.account; }
std::string Qos(const AccountRow& r, const Scene&) { return OfJob(r, r.job.qos); }
std::string Label(const AccountRow& r, const std::string& option) { return OfJob(r, LabelOf(r.labels, option, "")); }
std::string WcKey(const AccountRow& r, const Scene&) { return Label(r, "wckey"); }
std::string Licenses(const AccountRow& r, const Scene&) { return Label(r, "licenses"); }
std::string Reservation(const AccountRow& r, const Scene&) { return Label(r, "reservation"); }
std::string Constraints(const AccountRow& r, const Scene&) { return Label(r, "constraint"); }
std::string Container(const AccountRow& r, const Scene&) { return Label(r, "container"); }
std::string McsLabel(const AccountRow& r, const Scene&) { return Label(r, "mcs-label"); }
std::string QosAsked(const AccountRow& r, const Scene&) { return Label(r, "qos"); }
std::string StdOut(const AccountRow& r, const Scene&) { return OfJob(r, r.output); }
std::string StdErr(const AccountRow& r, const Scene&) { return OfJob(r, r.error.empty() ? r.output : r.error); }
std::string StdIn(const AccountRow& r, const Scene&) { return OfJob(r, "/dev/null"); }
std::string GroupName(const AccountRow& r, const Scene& s) { return OfJob(r, s.group_of(r.job.user).first); }
std::string Gid(const AccountRow& r, const Scene& s) { return OfJob(r, std::to_string(s.group_of(r.job.user).second)); }
std::string PlannedCpu(const AccountRow& r, const Scene& s) {
  return OfJob(r, LongElapsed(Waited(r, s) * static_cast<double>(CpusOf(r.job))));
}
std::string PlannedCpuRaw(const AccountRow& r, const Scene& s) {
  return OfJob(r, Seconds(Waited(r, s) * static_cast<double>(CpusOf(r.job))));
}
std::string RssNode(const AccountRow& r, const Scene& s) {
  return r.is_measured_step() && r.memory_peak_bytes > 0 ? BatchHostOf(r.job, s) : "";
}
std::string RssTask(const AccountRow& r, const Scene&) {
  return r.is_measured_step() && r.memory_peak_bytes > 0 ? "0" : "";
}
std::string UsageIn(const AccountRow& r, const Scene&) {
  if (!r.is_measured_step()) return "";
  return "cpu=" + LongElapsed(r.cpu_time_s) + ",mem=" + std::to_string(r.memory_peak_bytes >> 10) + "K";
}
std::string Layout(const AccountRow& r, const Scene&) { return r.is_step() ? "Block" : ""; }
std::string Flags(const AccountRow& r, const Scene&) { return OfJob(r, r.job.start_time ? "SchedMain" : ""); }
std::string Zero(const AccountRow& r, const Scene&) { return OfJob(r, "0"); }
std::string WorkDir(const AccountRow& r, const Scene&) { return OfJob(r, r.directory); }
std::string SubmitLine(const AccountRow& r, const Scene&) { return OfJob(r, r.command); }
std::string Cluster(const AccountRow&, const Scene&) { return std::string(dialect::kSlurmCluster); }
std::string NodeCount(const AccountRow& r, const Scene&) { return std::to_string(NodeCountOf(r.job)); }
std::string Tasks(const AccountRow& r, const Scene&) {
  if (!r.is_step()) return "";
  return std::to_string(r.step_tasks);
}
std::string Nothing(const AccountRow&, const Scene&) { return ""; }
std::string NoTime(const AccountRow&, const Scene&) { return "00:00:00"; }
std::string NoError(const AccountRow& r, const Scene&) { return OfJob(r, "0:0"); }

/// In the order of sacct --helpformat, with the widths of Slurm 22.05.
constexpr auto kFields = std::to_array<AccountField>({
    {"Account", 10, false, Account},
    {"AdminComment", 19, false, Nothing},
    {"AllocCPUS", 10, false, AllocCpus},
    {"AllocGRES", 12, false, AllocGres},
    {"AllocNodes", 10, false, NodeCount},
    {"AllocTRES", 10, false, AllocTres},
    {"AssocID", 7, false, Zero},
    {"AveCPU", 10, true, StepCpu},
    {"AveCPUFreq", 10, false, Nothing},
    {"AveDiskRead", 14, false, Nothing},
    {"AveDiskWrite", 14, false, Nothing},
    {"AvePages", 10, false, Nothing},
    {"AveRSS", 10, true, Rss},
    {"AveVMSize", 10, false, Nothing},
    {"BlockID", 16, false, Nothing},
    {"Cluster", 10, false, Cluster},
    {"Comment", 14, false, Comment},
    {"Constraints", 19, true, Constraints},
    {"ConsumedEnergy", 14, false, Nothing},
    {"ConsumedEnergyRaw", 17, false, Nothing},
    {"Container", 19, true, Container},
    {"CPUTime", 10, false, CpuTime},
    {"CPUTimeRAW", 10, false, CpuTimeRaw},
    {"DBIndex", 10, false, Zero},
    {"DerivedExitCode", 15, false, NoError},
    {"Elapsed", 10, false, ElapsedText},
    {"ElapsedRaw", 10, false, ElapsedRaw},
    {"Eligible", 19, false, EligibleText},
    {"End", 19, false, EndText},
    {"ExitCode", 8, false, Exit},
    {"Extra", 19, false, Nothing},
    {"FailedNode", 19, false, Nothing},
    {"Flags", 19, false, Flags},
    {"GID", 6, false, Gid},
    {"Group", 9, false, GroupName},
    {"JobID", -12, false, Id},
    {"JobIDRaw", -12, false, RawId},
    {"JobName", 10, false, JobName},
    {"Layout", 9, false, Layout},
    {"Licenses", 10, true, Licenses},
    {"MaxDiskRead", 12, false, Nothing},
    {"MaxDiskReadNode", 15, false, Nothing},
    {"MaxDiskReadTask", 15, false, Nothing},
    {"MaxDiskWrite", 12, false, Nothing},
    {"MaxDiskWriteNode", 16, false, Nothing},
    {"MaxDiskWriteTask", 16, false, Nothing},
    {"MaxPages", 8, false, Nothing},
    {"MaxPagesNode", 12, false, Nothing},
    {"MaxPagesTask", 14, false, Nothing},
    {"MaxRSS", 10, true, Rss},
    {"MaxRSSNode", 10, true, RssNode},
    {"MaxRSSTask", 10, true, RssTask},
    {"MaxVMSize", 10, false, Nothing},
    {"MaxVMSizeNode", 14, false, Nothing},
    {"MaxVMSizeTask", 14, false, Nothing},
    {"McsLabel", 9, true, McsLabel},
    {"MinCPU", 10, true, StepCpu},
    {"MinCPUNode", 10, true, RssNode},
    {"MinCPUTask", 10, true, RssTask},
    {"NCPUS", 10, false, AllocCpus},
    {"NNodes", 8, false, NodeCount},
    {"NodeList", 15, false, Nodes},
    {"NTasks", 8, false, Tasks},
    {"Partition", 10, false, PartitionOf},
    {"Planned", 10, false, Planned},
    {"PlannedCPU", 10, false, PlannedCpu},
    {"PlannedCPURAW", 13, false, PlannedCpuRaw},
    {"Priority", 10, false, Priority},
    {"QOS", 10, false, Qos},
    {"QOSRAW", 10, false, Zero},
    {"QOSREQ", 10, true, QosAsked},
    {"Reason", 22, false, Reason},
    {"ReqCPUFreq", 10, false, Nothing},
    {"ReqCPUFreqGov", 13, false, Nothing},
    {"ReqCPUFreqMax", 13, false, Nothing},
    {"ReqCPUFreqMin", 13, false, Nothing},
    {"ReqCPUS", 8, false, Cpus},
    {"ReqGRES", 12, false, ReqGres},
    {"ReqMem", 10, false, ReqMem},
    {"ReqNodes", 8, false, NodeCount},
    {"ReqTRES", 10, false, ReqTres},
    {"Reservation", 20, true, Reservation},
    {"ReservationId", 14, false, Nothing},
    {"Reserved", 10, false, Planned},
    {"Restarts", 8, false, Restarts},
    {"ResvCPU", 10, false, PlannedCpu},
    {"ResvCPURAW", 10, false, PlannedCpuRaw},
    {"SLUID", 14, false, Nothing},
    {"Start", 19, false, StartText},
    {"State", 10, false, AccountState},
    {"StdErr", 20, true, StdErr},
    {"StdIn", 20, false, StdIn},
    {"StdOut", 20, true, StdOut},
    {"Submit", 19, false, SubmitText},
    {"SubmitLine", 20, true, SubmitLine},
    {"Suspended", 10, false, NoTime},
    {"SystemComment", 19, false, Nothing},
    {"SystemCPU", 10, false, NoTime},
    {"Timelimit", 10, false, Limit},
    {"TimelimitRaw", 12, false, LimitRaw},
    {"TotalCPU", 10, true, TotalCpu},
    {"TRESUsageInAve", 14, true, UsageIn},
    {"TRESUsageInMax", 14, true, UsageIn},
    {"TRESUsageInMaxNode", 18, true, RssNode},
    {"TRESUsageInMaxTask", 18, true, RssTask},
    {"TRESUsageInMin", 14, true, UsageIn},
    {"TRESUsageInMinNode", 18, true, RssNode},
    {"TRESUsageInMinTask", 18, true, RssTask},
    {"TRESUsageInTot", 14, true, UsageIn},
    {"TRESUsageOutAve", 15, false, Nothing},
    {"TRESUsageOutMax", 15, false, Nothing},
    {"TRESUsageOutMaxNode", 19, false, Nothing},
    {"TRESUsageOutMaxTask", 19, false, Nothing},
    {"TRESUsageOutMin", 15, false, Nothing},
    {"TRESUsageOutMinNode", 19, false, Nothing},
    {"TRESUsageOutMinTask", 19, false, Nothing},
    {"TRESUsageOutTot", 15, false, Nothing},
    {"UID", 6, false, Uid},
    {"User", 9, false, User},
    {"UserCPU", 10, true, TotalCpu},
    {"WCKey", 10, true, WcKey},
    {"WCKeyID", 10, false, Zero},
    {"WorkDir", 20, true, WorkDir},
});

/// Finds a field by its name or the beginning of it. As in sacct, the first match counts.
const AccountField* FindField(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const AccountField& field : kFields) {
    if (EqualsIgnoringCase(field.name, name)) return &field;
  }
  for (const AccountField& field : kFields) {
    if (EqualsIgnoringCase(field.name.substr(0, name.size()), name)) return &field;
  }
  return nullptr;
}

}  // namespace

std::string AccountState(const AccountRow& r, const Scene& s) {
  if (r.was_oom_killed && (!r.is_step() || r.is_step_measured)) return "OUT_OF_MEMORY";
  if (r.job.state == "cancelled" && !r.is_step()) return "CANCELLED by " + std::to_string(s.uid_of(r.job.user));
  // Slurm's accounting only distinguishes whether a job has its resources.
  if (r.job.state == "starting" || r.job.state == "stopping") return "RUNNING";
  return StateName(r.job);
}

bool NeedsDetail(const std::vector<std::string>& fields) {
  return std::ranges::any_of(fields, [](const std::string& name) {
    const AccountField* field = FindField(name.substr(0, name.find('%')));
    return field != nullptr && field->needs_detail;
  });
}

Result<std::string> FormatAccounts(const std::vector<AccountRow>& rows, const AccountFormat& format,
                                   const Scene& scene) {
  std::vector<const AccountField*> fields;
  std::vector<TableColumn> columns;
  for (const std::string& text : format.fields) {
    DIVVY_TRY(const WantedField wanted, ReadWantedField(text));
    const AccountField* field = FindField(wanted.name);
    if (field == nullptr) return InvalidArgument("Invalid field requested: \"" + wanted.name + "\"");
    fields.push_back(field);
    columns.push_back({std::string(field->name), wanted.width != 0 ? wanted.width : field->width});
  }
  std::vector<std::vector<std::string>> cells;
  for (const AccountRow& row : rows) {
    std::vector<std::string>& line = cells.emplace_back();
    for (const AccountField* field : fields) line.push_back(field->get(row, scene));
  }
  return DrawTable(columns, cells, format.style);
}

std::string AccountFieldNames() {
  std::string text;
  for (std::size_t i = 0; i < kFields.size(); ++i) {
    text += TableCell(kFields[i].name, -19);
    text += (i + 1) % 4 == 0 || i + 1 == kFields.size() ? "\n" : " ";
  }
  return text;
}

}  // namespace divvy::cli::slurm
