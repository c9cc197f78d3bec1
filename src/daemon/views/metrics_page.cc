#include "daemon/views/metrics_page.h"

#include <algorithm>
#include <cmath>

#include "daemon/leadership/leader_answers.h"
#include "daemon/views/views.h"
#include "daemon/views/views_samples.h"
#include "engine/scheduler/idle_gpus.h"
#include "version.h"

namespace divvy {
namespace {

using samples::Metric;
using samples::Of;
using wire::Exposition;
using Kind = wire::Exposition::Kind;
using Labels = wire::Exposition::Labels;

struct Exposed {
  Metric metric;
  std::string_view name;
  std::string_view unit;
  std::string_view help;
  Kind kind = Kind::kGauge;
};

constexpr std::array<Exposed, 16> kOfGpus = {{
    {Metric::kGpuUtilization, "divvy_gpu_utilization_ratio", "ratio", "Part of the time in which a kernel ran."},
    {Metric::kGpuMemoryUtilization, "divvy_gpu_memory_utilization_ratio", "ratio",
     "Part of the time in which its memory was read or written."},
    {Metric::kGpuSmActivity, "divvy_gpu_sm_activity_ratio", "ratio", "Part of its multiprocessors that were busy."},
    {Metric::kGpuTensorActivity, "divvy_gpu_tensor_activity_ratio", "ratio",
     "Part of the time in which its tensor cores worked."},
    {Metric::kGpuMemoryUsed, "divvy_gpu_memory_used_bytes", "bytes", "Memory in use."},
    {Metric::kGpuPower, "divvy_gpu_power_watts", "watts", "Power drawn."},
    {Metric::kGpuTemperature, "divvy_gpu_temperature_celsius", "celsius", "Temperature."},
    {Metric::kGpuSmClock, "divvy_gpu_sm_clock_hertz", "hertz", "Clock of its multiprocessors."},
    {Metric::kGpuMemoryClock, "divvy_gpu_memory_clock_hertz", "hertz", "Clock of its memory."},
    {Metric::kGpuThrottle, "divvy_gpu_throttle_reasons", "", "NVML's reasons for lower clocks, as bits; idle is none."},
    {Metric::kGpuPcieReceived, "divvy_gpu_pcie_received_bytes_per_second", "", "Over PCIe, to the GPU."},
    {Metric::kGpuPcieSent, "divvy_gpu_pcie_sent_bytes_per_second", "", "Over PCIe, from the GPU."},
    {Metric::kGpuNvlinkReceived, "divvy_gpu_nvlink_received_bytes_per_second", "", "Over all NVLinks, to the GPU."},
    {Metric::kGpuNvlinkSent, "divvy_gpu_nvlink_sent_bytes_per_second", "", "Over all NVLinks, from the GPU."},
    {Metric::kGpuEccErrors, "divvy_gpu_ecc_errors_uncorrected", "",
     "Memory errors that were not corrected, since the driver began.", Kind::kCounter},
    {Metric::kGpuXid, "divvy_gpu_xid", "", "Number of the newest error that the driver reported."},
}};
constexpr std::array<Exposed, 7> kOfNodes = {{
    {Metric::kCpuCores, "divvy_node_cpu_busy_cores", "", "Cores that were busy."},
    {Metric::kCpuUtilization, "divvy_node_cpu_utilization_ratio", "ratio", "Part of all cores' time that was used."},
    {Metric::kMemoryUsed, "divvy_node_memory_used_bytes", "bytes", "Memory in use, without reclaimable memory."},
    {Metric::kIoRead, "divvy_node_disk_read_bytes_per_second", "", "From disks."},
    {Metric::kIoWritten, "divvy_node_disk_written_bytes_per_second", "", "To disks."},
    {Metric::kNetworkReceived, "divvy_node_network_received_bytes_per_second", "", "From the network."},
    {Metric::kNetworkSent, "divvy_node_network_sent_bytes_per_second", "", "To the network."},
}};
constexpr std::array<Exposed, 1> kOfSlices = {{
    {Metric::kGpuMemoryUsed, "divvy_slice_memory_used_bytes", "bytes", "Memory in use of a MIG instance."},
}};
constexpr std::array<Exposed, 5> kOfJobs = {{
    {Metric::kGpuUtilization, "divvy_job_gpu_utilization_ratio", "ratio", "Mean over the GPUs of a running job."},
    {Metric::kGpuMemoryUsed, "divvy_job_gpu_memory_used_bytes", "bytes", "GPU memory that a running job uses."},
    {Metric::kGpuPower, "divvy_job_gpu_power_watts", "watts", "Power that a running job's GPUs draw."},
    {Metric::kCpuCores, "divvy_job_cpu_busy_cores", "", "Cores' worth of CPU time that a running job uses."},
    {Metric::kMemoryUsed, "divvy_job_memory_used_bytes", "bytes", "Memory of a running job's processes."},
}};

/// The names and units of NVIDIA's DCGM exporter.
struct DcgmName {
  Metric metric;
  std::string_view name;
  double factor;
  std::string_view help;
  Kind kind = Kind::kGauge;
};
constexpr double kPerMebibyte = 1.0 / (1 << 20);
constexpr std::array<DcgmName, 11> kDcgm = {{
    {Metric::kGpuUtilization, "DCGM_FI_DEV_GPU_UTIL", 100, "GPU utilization (in %)."},
    {Metric::kGpuMemoryUtilization, "DCGM_FI_DEV_MEM_COPY_UTIL", 100, "Memory utilization (in %)."},
    {Metric::kGpuMemoryUsed, "DCGM_FI_DEV_FB_USED", kPerMebibyte, "Framebuffer memory used (in MiB)."},
    {Metric::kGpuPower, "DCGM_FI_DEV_POWER_USAGE", 1, "Power draw (in W)."},
    {Metric::kGpuTemperature, "DCGM_FI_DEV_GPU_TEMP", 1, "GPU temperature (in C)."},
    {Metric::kGpuSmClock, "DCGM_FI_DEV_SM_CLOCK", 1e-6, "SM clock frequency (in MHz)."},
    {Metric::kGpuMemoryClock, "DCGM_FI_DEV_MEM_CLOCK", 1e-6, "Memory clock frequency (in MHz)."},
    {Metric::kGpuXid, "DCGM_FI_DEV_XID_ERRORS", 1, "Value of the last XID error encountered."},
    {Metric::kGpuSmActivity, "DCGM_FI_PROF_SM_ACTIVE", 1, "Ratio of time in which multiprocessors were busy."},
    {Metric::kGpuTensorActivity, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1, "Ratio of time the tensor pipes are active."},
    {Metric::kGpuUtilization, "DCGM_FI_PROF_GR_ENGINE_ACTIVE", 1, "Ratio of time the graphics engine is active."},
}};

const double* Find(const MetricStore::Newest& newest, Metric metric) {
  for (const samples::Reading& reading : newest.readings) {
    if (reading.metric == metric) return &reading.value;
  }
  return nullptr;
}

// Rounds, because percentages divided by 100 are no exact binary numbers: 0.47000000000000003.
double Neat(double value) { return std::round(value * 1e6) / 1e6; }

/// Hardware counters of GPUs that have a recent sample.
using Counted = std::map<samples::Subject, samples::GpuCounters>;
Counted CountersOf(const MetricStore& store, const LatestSamples& latest, samples::Second now) {
  Counted counters;
  std::map<std::string, std::vector<samples::GpuCounters>> on;
  for (const auto& [subject, newest] : latest) {
    if (subject.of != Of::kGpu) continue;
    const auto [node, is_new] = on.try_emplace(subject.node);
    if (is_new) node->second = store.CountersOn(subject.node, now);
    const auto gpu = std::ranges::find(node->second, subject.gpu, &samples::GpuCounters::gpu);
    if (gpu != node->second.end()) counters.emplace(subject, *gpu);
  }
  return counters;
}

/// Adds samples to the family that was begun.
template <typename LabelsOf>
void AddCounter(Exposition& out, const Counted& counters, std::optional<std::uint64_t> samples::GpuCounters::*counter,
                double divisor, const LabelsOf& labels) {
  for (const auto& [subject, gpu] : counters) {
    if (gpu.*counter) out.Add(labels(subject), static_cast<double>(*(gpu.*counter)) / divisor);
  }
}

void AddWaste(Exposition& out, const wire::WasteAnswer& waste) {
  std::map<std::string_view, double> gpus;
  for (const wire::WastefulJob& job : waste.jobs) {
    for (const wire::WasteFinding& finding : job.findings) gpus[finding.kind] += finding.gpus;
  }
  out.Begin("divvy_gpus_wasted", Kind::kGauge, "", "GPUs that running jobs hold but waste, by kind of waste.");
  using samples::WasteKind;
  for (const WasteKind kind :
       {WasteKind::kIdle, WasteKind::kSomeIdle, WasteKind::kCpuBound, WasteKind::kUnderused, WasteKind::kSmallMemory})
    out.Add({{"kind", std::string(samples::Name(kind))}}, Neat(gpus[samples::Name(kind)]));
}

// Subjects without labels are left out.
template <std::size_t kCount, typename LabelsOf>
void AddSamples(Exposition& out, const LatestSamples& latest, Of of, const std::array<Exposed, kCount>& table,
                const LabelsOf& labels_of) {
  for (const Exposed& exposed : table) {
    out.Begin(exposed.name, exposed.kind, exposed.unit, exposed.help);
    for (const auto& [subject, newest] : latest) {
      if (subject.of != of) continue;
      const double* const value = Find(newest, exposed.metric);
      if (value == nullptr) continue;
      if (const Labels labels = labels_of(subject); !labels.empty()) out.Add(labels, Rounded(exposed.metric, *value));
    }
  }
}

// A rough class of what the job waits for: with a long queue, a scrape has no time for Controller::WaitingReason.
std::string_view WaitsFor(const Controller& controller, const JobRecord& record) {
  const Scheduler& cluster = controller.scheduler();
  if (record.is_held) return "release";
  const WaitingEntry* entry = cluster.waiting(record.id);
  if (entry == nullptr) return "other";
  if (!entry->unmet_dependencies.empty()) return "dependency";
  for (const GroupName& group : entry->groups) {
    const int limit = cluster.group_limit(group);
    if (limit > 0 && cluster.group_running(group) >= limit) return "group";
  }
  if (entry->begin != kNoTime && entry->begin > record.queued_at) return "begin";
  if (cluster.IsBarredByTeam(record.id)) return "team";
  return record.request.gpus_in_all() > 0 ? "gpus" : "cpus";
}

void AddJobs(Exposition& out, const Controller& controller) {
  std::map<std::string_view, double> by_state;
  std::map<std::string_view, double> by_wait;
  for (const auto& [id, record] : controller.live()) {
    const double members = record.array_count > 0 ? static_cast<double>(record.array_waiting.size()) : 1;
    by_state[Name(record.state)] += members;
    if (IsWaiting(record.state)) by_wait[WaitsFor(controller, record)] += members;
  }
  out.Begin("divvy_jobs", Kind::kGauge, "", "Jobs that have not ended.");
  for (const JobState state : {JobState::kHeld, JobState::kQueued, JobState::kStarting, JobState::kRunning,
                               JobState::kPaused, JobState::kStopping})
    out.Add({{"state", std::string(Name(state))}}, by_state[Name(state)]);
  out.Begin("divvy_jobs_waiting", Kind::kGauge, "", "Waiting jobs by their first blocker.");
  for (const std::string_view what : {"release", "dependency", "group", "begin", "team", "gpus", "cpus", "other"})
    out.Add({{"for", std::string(what)}}, by_wait[what]);
  out.Begin("divvy_jobs_submitted", Kind::kCounter, "", "Jobs that were ever submitted.");
  out.Add({}, static_cast<double>(controller.jobs_total()));
}

void AddGpuFacts(Exposition& out, const Controller& controller, Time now) {
  const Scheduler& cluster = controller.scheduler();
  const auto each = [&](const auto& add) {
    for (NodeIndex node = 0; node < cluster.nodes().size(); ++node) {
      for (const GpuFacts& gpu : cluster.node(node).capacity.gpus) add(node, gpu);
    }
  };
  const auto labels = [&](NodeIndex node, const GpuFacts& gpu) {
    return Labels{{"node", cluster.node(node).attributes.name}, {"gpu", std::to_string(gpu.index)}};
  };
  out.Begin("divvy_gpu_info", Kind::kGauge, "", "What a GPU is; always 1.");
  each([&](NodeIndex node, const GpuFacts& gpu) {
    Labels all = labels(node, gpu);
    all.insert(all.end(), {{"uuid", gpu.uuid}, {"model", gpu.model}, {"pci_bus_id", gpu.pci_address}});
    out.Add(all, 1);
  });
  out.Begin("divvy_gpu_memory_total_bytes", Kind::kGauge, "bytes", "Memory that it has.");
  each([&](NodeIndex node, const GpuFacts& gpu) {
    out.Add(labels(node, gpu), static_cast<double>(gpu.memory_total.count()));
  });
  out.Begin("divvy_gpu_allocated_ratio", Kind::kGauge, "ratio", "Fraction of it allocated to jobs.");
  each([&](NodeIndex node, const GpuFacts& gpu) {
    out.Add(labels(node, gpu), Neat(1 - PartOfWhole(cluster.node(node).room(gpu.index))));
  });
  out.Begin("divvy_gpu_healthy", Kind::kGauge, "", "0: it is fenced because the driver reports that it does not work.");
  each([&](NodeIndex node, const GpuFacts& gpu) {
    // The health of a disconnected node's GPUs is not known.
    if (!controller.DisconnectReason(cluster.node(node).attributes.name).empty()) return;
    out.Add(labels(node, gpu), cluster.node(node).availability[gpu.index].fault.empty() ? 1 : 0);
  });
  out.Begin("divvy_gpus", Kind::kGauge, "", "GPUs of all nodes.");
  out.Add({}, cluster.gpu_count());
  out.Begin("divvy_gpus_free", Kind::kGauge, "", "GPUs that accept new work of any user.");
  const IdleGpus idle(cluster, now);
  out.Add({}, idle.free_count());
  out.Begin("divvy_gpus_reserved", Kind::kGauge, "", "Idle GPUs reserved by an active reservation.");
  out.Add({}, idle.reserved_count());
  int largest = 0;
  for (NodeIndex node = 0; node < cluster.nodes().size(); ++node) largest = std::max(largest, idle.free(node).size());
  out.Begin("divvy_gpus_free_on_one_node", Kind::kGauge, "", "Largest number of free GPUs on one node.");
  out.Add({}, largest);
  out.Begin("divvy_fragmentation_ratio", Kind::kGauge, "ratio", "Fraction of the free GPUs that are on other nodes.");
  out.Add({}, idle.free_count() == 0 ? 0 : Neat(1 - largest / static_cast<double>(idle.free_count())));
}

void AddNodes(Exposition& out, const MetricsAbout& about) {
  out.Begin("divvy_nodes", Kind::kGauge, "", "Known nodes, including the controller's own.");
  // All states are exported from the start, so that a change of state does not create a new series.
  std::map<std::string, int> nodes = about.nodes;
  for (const char* state : {"up", "away", "lost", "awaited", "cordoned", "draining", "drained", "unfit"})
    nodes.try_emplace(state, 0);
  for (const auto& [state, count] : nodes) out.Add({{"state", state}}, count);
  const Scheduler& cluster = about.driver.controller().scheduler();
  const auto each = [&](const auto& value_of) {
    for (const NodeUsage& node : cluster.nodes()) {
      const auto value = static_cast<double>(value_of(node.capacity));
      if (value > 0) out.Add({{"node", node.attributes.name}}, value);  // 0: unknown, or the node was removed.
    }
  };
  out.Begin("divvy_node_cpu_cores", Kind::kGauge, "", "Cores that it has.");
  each([](const NodeCapacity& capacity) { return capacity.cpus; });
  out.Begin("divvy_node_memory_total_bytes", Kind::kGauge, "bytes", "Memory that it has.");
  each([](const NodeCapacity& capacity) { return capacity.memory.count(); });
}

void AddTeamNodes(Exposition& out, const std::map<std::string, MetricsAbout::TeamNodes>& teams) {
  if (teams.empty()) return;
  out.Begin("divvy_team_nodes_cost_per_hour", Kind::kGauge, "",
            "Price of the nodes that providers have for a team and the teams below it.");
  for (const auto& [team, its] : teams) out.Add({{"team", team}}, its.per_hour);
  out.Begin("divvy_team_nodes_cost_this_month", Kind::kGauge, "",
            "Cost of the nodes of providers for a team and the teams below it in this calendar month (UTC).");
  for (const auto& [team, its] : teams) out.Add({{"team", team}}, its.this_month);
}

void AddProviders(Exposition& out, const std::vector<wire::ProviderView>& providers) {
  if (providers.empty()) return;
  out.Begin("divvy_provider_nodes", Kind::kGauge, "", "Nodes of a provider, by state.");
  for (const wire::ProviderView& provider : providers) {
    // All states are exported from the start, so that a change of state does not create a new series.
    std::map<std::string, int> nodes;
    for (const char* state : {"requested", "booting", "joined", "draining", "destroying"}) nodes[state] = 0;
    for (const wire::ProviderNodeView& node : provider.list) ++nodes[node.state];
    for (const auto& [state, count] : nodes) out.Add({{"provider", provider.name}, {"state", state}}, count);
  }
  out.Begin("divvy_provider_unrequested_nodes", Kind::kGauge, "",
            "Nodes with the cluster's tag that nobody requested; they are destroyed.");
  for (const wire::ProviderView& provider : providers)
    out.Add({{"provider", provider.name}}, static_cast<double>(provider.unrequested));
  out.Begin("divvy_provider_cost_per_hour", Kind::kGauge, "", "Price of a provider's nodes together.");
  for (const wire::ProviderView& provider : providers) out.Add({{"provider", provider.name}}, provider.hourly);
  out.Begin("divvy_provider_cost_this_month", Kind::kGauge, "", "Money spent in this calendar month (UTC).");
  for (const wire::ProviderView& provider : providers) out.Add({{"provider", provider.name}}, provider.this_month);
  out.Begin("divvy_provider_failing", Kind::kGauge, "",
            "1: its last call failed, so it gets no requests until a call succeeds.");
  for (const wire::ProviderView& provider : providers)
    out.Add({{"provider", provider.name}}, provider.state == "failing" ? 1 : 0);
}

void AddTeams(Exposition& out, const Controller& controller, Time now) {
  out.Begin("divvy_team_gpus", Kind::kGauge, "", "GPUs that running jobs of a team hold.");
  const auto loads = controller.TeamLoads(now);
  for (const auto& [key, load] : loads) {
    if (key.starts_with("team:")) out.Add({{"team", key.substr(5)}}, Neat(load.gpus));
  }
  out.Begin("divvy_team_gpu_seconds", Kind::kCounter, "",
            "GPU time that a team has used; restarts with each period of its budget, or each month without one.");
  for (const auto& [key, load] : loads) {
    if (key.starts_with("team:")) out.Add({{"team", key.substr(5)}}, static_cast<double>(load.used.gpu_ms) / 1000);
  }
  out.Begin("divvy_team_quota_gpus", Kind::kGauge, "", "Guaranteed GPUs of a team.");
  for (const auto& [name, row] : controller.teams().teams()) {
    if (row.quota_milli) out.Add({{"team", name}}, static_cast<double>(*row.quota_milli) / 1000);
  }
}

void AddTimeSharing(Exposition& out, const Controller& controller, Time now) {
  const TimeSharingTotals totals = controller.time_sharer().TotalsAt(now);
  out.Begin("divvy_time_sharing_jobs", Kind::kGauge, "", "Running jobs that can be parked for others, by state.");
  for (const auto& [state, count] : {std::pair("trial", totals.on_trial), std::pair("past_trial", totals.past_trial),
                                     std::pair("parked", totals.parked)})
    out.Add({{"state", state}}, count);
  out.Begin("divvy_time_sharing_parks", Kind::kCounter, "",
            "How often a job was parked so that another one could start.");
  out.Add({}, static_cast<double>(totals.parks));
  out.Begin("divvy_time_sharing_lost_seconds", Kind::kCounter, "seconds",
            "Time that jobs were without their GPUs. Counted when a job returns.");
  out.Add({}, ToSeconds(totals.lost));
}

void AddTimes(Exposition& out, const MetricsAbout& about) {
  const auto add = [&](std::string_view name, std::string_view help, const TimesTaken& times) {
    out.Begin(name, Kind::kHistogram, "seconds", help);
    out.AddHistogram({}, times.bounds(), times.counts(), times.sum());
  };
  add("divvy_scheduler_decision_seconds", "How long it takes to decide who starts.", about.driver.decisions());
  add("divvy_store_commit_seconds", "How long it takes to make changes durable.", about.driver.commits());
  if (about.counters == nullptr) return;
  add("divvy_job_queue_wait_seconds", "How long jobs that started had waited.", about.counters->waits());
  add("divvy_job_run_seconds", "Duration of finished runs.", about.counters->runs());
  out.Begin("divvy_preemptions", Kind::kCounter, "", "Runs that were preempted so that another job could start.");
  out.Add({}, static_cast<double>(about.counters->preemptions()));
  out.Begin("divvy_jobs_ended", Kind::kCounter, "", "Jobs that ended since the daemon began.");
  // All states are exported from the start: rate() misses the first increase of a series that begins at 1.
  const auto& ended = about.counters->ended();
  for (const JobState state :
       {JobState::kSucceeded, JobState::kFailed, JobState::kCancelled, JobState::kTimedOut, JobState::kLost}) {
    const auto count = ended.find(state);
    out.Add({{"state", std::string(Name(state))}}, count == ended.end() ? 0 : static_cast<double>(count->second));
  }
}

void AddControllers(Exposition& out, const LeaseKeeper& keeper) {
  out.Begin("divvy_controller_leads", Kind::kGauge, "", "1: this controller leads, and its lease is valid.");
  out.Add({}, keeper.may_act() ? 1 : 0);
  out.Begin("divvy_controller_epoch", Kind::kGauge, "", "The epoch of its lease; each new leader has a greater one.");
  out.Add({}, static_cast<double>(keeper.epoch()));
  out.Begin("divvy_controller_database_age_seconds", Kind::kGauge, "seconds",
            "Time since the database last answered the lease's connection.");
  out.Add({}, ToSeconds(keeper.since_boot() - keeper.view().at));
  const auto controllers = ControllerViewsOf(keeper);
  // All roles are exported from the start, so that a change of role does not create a new series.
  std::map<std::string, int> roles = {{"leader", 0}, {"standby", 0}, {"silent", 0}};
  for (const wire::ControllerView& controller : controllers) ++roles[controller.role];
  out.Begin("divvy_controllers", Kind::kGauge, "", "Known controllers; a silent one does not report to the database.");
  for (const auto& [role, count] : roles) out.Add({{"role", role}}, count);
  out.Begin("divvy_controller_lag_seconds", Kind::kGauge, "seconds",
            "Time since the last report of a controller to the database.");
  for (const wire::ControllerView& controller : controllers)
    out.Add({{"controller", controller.name}}, controller.lag_s);
  out.Begin("divvy_controller_clock_ahead_seconds", Kind::kGauge, "seconds",
            "By how much a controller's clock is ahead of the database's.");
  for (const wire::ControllerView& controller : controllers)
    out.Add({{"controller", controller.name}}, controller.ahead_s);
}

void AddDcgm(Exposition& out, const LatestSamples& latest, const Counted& counters, const Controller& controller) {
  std::map<std::pair<std::string, int>, const GpuFacts*> facts;
  for (const NodeUsage& node : controller.scheduler().nodes()) {
    for (const GpuFacts& gpu : node.capacity.gpus) facts[{node.attributes.name, gpu.index}] = &gpu;
  }
  const auto labels = [&](const samples::Subject& subject) {
    const auto known = facts.find({subject.node, subject.gpu});
    const GpuFacts* gpu = known == facts.end() ? nullptr : known->second;
    const std::string index = std::to_string(subject.gpu);
    return Labels{{"gpu", index},
                  {"UUID", gpu == nullptr ? "" : gpu->uuid},
                  {"pci_bus_id", gpu == nullptr ? "" : gpu->pci_address},
                  {"device", "nvidia" + index},
                  {"modelName", gpu == nullptr ? "" : gpu->model},
                  {"Hostname", subject.node}};
  };
  for (const DcgmName& name : kDcgm) {
    out.Begin(name.name, name.kind, "", name.help);
    for (const auto& [subject, newest] : latest) {
      if (subject.of != Of::kGpu) continue;
      if (const double* value = Find(newest, name.metric))
        out.Add(labels(subject), Neat(Rounded(name.metric, *value) * name.factor));
    }
  }
  out.Begin("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", Kind::kForeignCounter, "",
            "Total energy consumption since the driver was loaded (in mJ).");
  AddCounter(out, counters, &samples::GpuCounters::energy_millijoules, 1, labels);
  out.Begin("DCGM_FI_DEV_FB_FREE", Kind::kGauge, "", "Framebuffer memory free (in MiB).");
  for (const auto& [subject, newest] : latest) {
    const auto known = facts.find({subject.node, subject.gpu});
    const double* used = Find(newest, Metric::kGpuMemoryUsed);
    if (subject.of != Of::kGpu || known == facts.end() || used == nullptr) continue;
    out.Add(labels(subject), (static_cast<double>(known->second->memory_total.count()) - *used) * kPerMebibyte);
  }
}

}  // namespace

std::string MetricsText(const MetricsAbout& about, wire::Exposed form) {
  const Controller& controller = about.driver.controller();
  const Time now = about.driver.Now();
  Exposition out(form);
  out.Begin("divvy_build_info", Kind::kGauge, "", "Which divvy this is; always 1.");
  out.Add({{"version", std::string(kVersion)}}, 1);
  out.Begin("divvy_accepts_work", Kind::kGauge, "", "0: no new work is accepted because the disk is full.");
  out.Add({}, about.driver.trouble().empty() ? 1 : 0);
  AddJobs(out, controller);
  AddGpuFacts(out, controller, now);
  AddNodes(out, about);
  AddProviders(out, about.providers);
  AddTeamNodes(out, about.team_nodes);
  AddTeams(out, controller, now);
  AddTimeSharing(out, controller, now);
  AddTimes(out, about);
  if (about.leadership != nullptr) AddControllers(out, *about.leadership);
  if (about.add_others) about.add_others(out);
  const auto second = static_cast<samples::Second>(ToSeconds(now));
  if (about.waste != nullptr) AddWaste(out, about.waste->View(controller, second));
  if (about.samples == nullptr) return out.Take();
  const LatestSamples latest = KnownNow(
      *about.samples, second, [&](const std::string& node) { return controller.DisconnectReason(node).empty(); });
  const auto of_gpu = [](const samples::Subject& subject) {
    return Labels{{"node", subject.node}, {"gpu", std::to_string(subject.gpu)}};
  };
  AddSamples(out, latest, Of::kGpu, kOfGpus, of_gpu);
  const Counted counters = CountersOf(*about.samples, latest, second);
  out.Begin("divvy_gpu_energy_joules", Kind::kCounter, "joules",
            "Energy that it has drawn since its driver was loaded.");
  AddCounter(out, counters, &samples::GpuCounters::energy_millijoules, 1e3, of_gpu);
  out.Begin("divvy_gpu_xid_errors", Kind::kCounter, "",
            "Errors reported by the driver since the daemon of its node started.");
  AddCounter(out, counters, &samples::GpuCounters::xid_errors, 1, of_gpu);
  AddSamples(out, latest, Of::kSlice, kOfSlices, [](const samples::Subject& subject) {
    return Labels{
        {"node", subject.node}, {"gpu", std::to_string(subject.gpu)}, {"instance", std::to_string(subject.instance)}};
  });
  AddSamples(out, latest, Of::kNode, kOfNodes, [](const samples::Subject& subject) {
    return Labels{{"node", subject.node}};
  });
  AddSamples(out, latest, Of::kJob, kOfJobs, [&](const samples::Subject& subject) {
    const JobRecord* record = controller.Find(JobId(subject.job));
    if (record == nullptr || !IsActive(record->state)) return Labels();
    return Labels{{"id", PublicId(*record)},  // The public id as in listings, 6_0, not the internal number.
                  {"node", subject.node},
                  {"user", record->user.name},
                  {"name", about.hides_job_names ? "" : record->name},
                  {"team", record->team}};
  });
  if (about.has_dcgm_names) AddDcgm(out, latest, counters, controller);
  return out.Take();
}

}  // namespace divvy
