// The fields of every message and of the parts of a job that are sent. All uses share this list: JSON in both
// directions (wire/json/json.h), the OpenAPI document, the command line's columns. The output has the same order.
//
// A field that is added to a struct must be added here as well: messages_describe_test.cc compares the counts.
#pragma once

#include <array>

#include <boost/describe/class.hpp>
#include <boost/describe/enum.hpp>

#include "model/job.h"
#include "model/node_allocation.h"
#include "wire/json/json_type.h"
#include "wire/messages/messages.h"

namespace divvy {

BOOST_DESCRIBE_ENUM(Dialect, kNative, kSlurm, kGflow, kValohai)
BOOST_DESCRIBE_ENUM(JobState, kHeld, kQueued, kStarting, kRunning, kPaused, kStopping, kSucceeded, kFailed, kCancelled,
                    kTimedOut, kLost)
BOOST_DESCRIBE_ENUM(PlacementStrategy, kSequential, kRandom, kPack, kSpread, kBest)
BOOST_DESCRIBE_ENUM(TopologyNeed, kAny, kNuma, kNvlink, kRack, kBlock)
BOOST_DESCRIBE_ENUM(Preemptible, kNever, kPause, kRequeue)
BOOST_DESCRIBE_ENUM(DependencyKind, kAfter, kAfterOk, kAfterNotOk, kAfterAny, kSingleton)

BOOST_DESCRIBE_STRUCT(Component, (),
                      (gpus, gpu_type, gpu_memory, cpus, memory, tasks, nodes, short_nodes, spreads_tasks, constraint,
                       node_list, excluded_nodes, pool, labels))
BOOST_DESCRIBE_STRUCT(GpuSlice, (), (profile, compute, size, start))
BOOST_DESCRIBE_STRUCT(GpuPortion, (),
                      (request, limit, memory, memory_limit, compute, compute_limit, idle_park, uses_mps))
BOOST_DESCRIBE_STRUCT(Request, (),
                      (gpus, gpu_type, gpu_memory, cpus, memory, tasks, max_gpus, topology, requires_topology, nodes,
                       short_nodes, spreads_tasks, constraint, node_list, excluded_nodes, others, portion, slice))
constexpr std::array<RenamedField, 2> RenamedFields(const Request*) {
  return {{{"max_gpus", "gpus_most"}, {"fraction", "portion"}}};
}
BOOST_DESCRIBE_STRUCT(Dependency, (), (kind, job, element, delay))
BOOST_DESCRIBE_STRUCT(ArraySpec, (), (indices, at_once))
BOOST_DESCRIBE_STRUCT(Parameter, (), (name, values, row_group))
BOOST_DESCRIBE_STRUCT(WarnSignal, (), (signal, before, batch_only))
BOOST_DESCRIBE_STRUCT(Capture, (), (environment, limits, umask))
BOOST_DESCRIBE_STRUCT(JobSpec, (),
                      (command, script, arguments, name, request, placement, is_placement_set, priority, is_held, begin,
                       time_limit, end_by, warn, stop_signal, resize_signal, grace, dependencies, needs_any_dependency,
                       keeps_waiting, array, parameters, name_template, retries, retry_delay, requeues_after_reboot,
                       preemptible, is_preemptible_set, group, group_limit, directory, output, error, input,
                       appends_output, is_foreground, wants_pty, capture, dialect, project, team, comment, account,
                       pool, labels, extra_environment, notes, queues_anyway, is_run_once, stale_grace))
BOOST_DESCRIBE_STRUCT(User, (), (uid, gid, name))
BOOST_DESCRIBE_STRUCT(Exit, (),
                      (code, signal, was_oom_killed, hit_time_limit, is_known, failure, cpu_time, memory_peak, steps))
BOOST_DESCRIBE_STRUCT(ComponentAllocation, (), (component, gpus, tasks))
BOOST_DESCRIBE_STRUCT(PartLoss, (), (at, requeues))
BOOST_DESCRIBE_STRUCT(NodeAllocation, (), (node, gpus, tasks, port, exit, parts, loss))

}  // namespace divvy

namespace divvy::wire {

BOOST_DESCRIBE_STRUCT(StatusView, (),
                      (pid, version, uptime_s, home, socket, user, is_machine_wide, gpu_source, policy, isolation,
                       listens, gpus, gpus_free, jobs_queued, jobs_held, jobs_running, jobs_total, accepts_work,
                       trouble, warnings, gpus_reserved, node, gpus_borrowed, time_sharing))
constexpr std::array<RenamedField, 1> RenamedFields(const StatusView*) { return {{{"gpus_borrowed", "gpus_lent"}}}; }
BOOST_DESCRIBE_STRUCT(GpuProcessView, (), (pid, user, command, memory_bytes, age_s, is_graphics, job, is_ignored))
BOOST_DESCRIBE_STRUCT(TenantView, (),
                      (job, display_id, name, user, state, share, request, request_bytes, limit_bytes,
                       current_limit_bytes, used_bytes, borrowed_bytes, compute, compute_request, compute_limit,
                       is_compute_known, planned_gpu, mechanism, is_movable, note))
constexpr std::array<RenamedField, 2> RenamedFields(const TenantView*) {
  return {{{"planned_gpu", "paper_gpu"}, {"current_limit_bytes", "ceiling_bytes"}}};
}
BOOST_DESCRIBE_STRUCT(GpuView, (),
                      (index, uuid, model, memory_total_bytes, memory_used_bytes, state, reason, jobs, job_display_ids,
                       pci_address, numa_node, compute_capability, is_mig_enabled, slices, links, utilisation_percent,
                       temperature_celsius, power_watts, processes, isolation, node, free, tenants, reservation))
BOOST_DESCRIBE_STRUCT(ComponentView, (),
                      (gpus, gpu_type, gpu_memory_bytes, cpus, memory_bytes, tasks, nodes, short_nodes, spreads_tasks,
                       constraint, node_list, excluded_nodes, pool))
BOOST_DESCRIBE_STRUCT(RequestView, (),
                      (gpus, gpu_type, gpu_memory_bytes, cpus, memory_bytes, tasks, time_limit_s, max_gpus, topology,
                       placement, nodes, short_nodes, spreads_tasks, constraint, node_list, excluded_nodes, others,
                       portion, slice, end_by))
constexpr std::array<RenamedField, 2> RenamedFields(const RequestView*) {
  return {{{"max_gpus", "gpus_most"}, {"fraction", "portion"}}};
}
BOOST_DESCRIBE_STRUCT(AllocationPartView, (), (component, gpus, tasks))
BOOST_DESCRIBE_STRUCT(AllocationView, (), (node, gpus, tasks, parts))
BOOST_DESCRIBE_STRUCT(SharedGpuView, (),
                      (gpu, planned_gpu, request_bytes, limit_bytes, current_limit_bytes, used_bytes, borrowed_bytes,
                       compute, compute_request, compute_limit, is_compute_known))
constexpr std::array<RenamedField, 2> RenamedFields(const SharedGpuView*) {
  return {{{"planned_gpu", "paper_gpu"}, {"current_limit_bytes", "ceiling_bytes"}}};
}
BOOST_DESCRIBE_STRUCT(ShareView, (), (part, state, note, mechanism, is_movable, gpus))
BOOST_DESCRIBE_STRUCT(TimeSharingView, (), (stage, is_parked, parked_for, lost_s, returns_by, why_kept))
BOOST_DESCRIBE_STRUCT(ProgressView, (), (fraction, step, steps, time, expected_end))
BOOST_DESCRIBE_STRUCT(StepTaskView, (), (rank, node, gpus, cores))
BOOST_DESCRIBE_STRUCT(StepView, (),
                      (number, name, state, tasks, gpus, start_time, end_time, exit_code, command, allocations,
                       task_map, time_limit_s))
constexpr std::array<RenamedField, 1> RenamedFields(const StepView*) { return {{{"allocations", "seats"}}}; }
BOOST_DESCRIBE_STRUCT(JobView, (),
                      (id, display_id, name, user, state, gpus, request, submit_time, eligible_time, start_time,
                       end_time, exit_code, signal, reason, start_reason, priority, project, group, pool, account, qos,
                       comment, dialect, array_id, array_index, count, array_indices, array_at_once, dependencies,
                       restarts, position, team, preemptible, progress, node, allocations, step_count, is_foreground,
                       share, time_sharing))
constexpr std::array<RenamedField, 1> RenamedFields(const JobView*) { return {{{"allocations", "seats"}}}; }
BOOST_DESCRIBE_STRUCT(JobOutlook, (),
                      (progress, speeds, isolation, node, allocations, step_count, steps, share, time_sharing))
constexpr std::array<RenamedField, 1> RenamedFields(const JobOutlook*) { return {{{"allocations", "seats"}}}; }
BOOST_DESCRIBE_STRUCT(JobDetail, (JobOutlook),
                      (id, display_id, name, user, state, gpus, request, submit_time, eligible_time, start_time,
                       end_time, exit_code, signal, reason, start_reason, priority, project, group, pool, account, qos,
                       comment, dialect, array_id, array_index, count, array_indices, array_at_once, dependencies,
                       restarts, position, team, preemptible, gpu_uuids, command, script, directory, output, error, pid,
                       was_oom_killed, cpu_time_s, memory_peak_bytes, deadline, retries_left, labels, notes, parameters,
                       elements, wants_pty, is_foreground, history))
BOOST_DESCRIBE_STRUCT(HolderView, (), (id, display_id, name, user, state, node, gpus, until))
BOOST_DESCRIBE_STRUCT(BlockerView, (), (kind, text, needed, available, holders, held_by, has_more_holders, rule))
BOOST_DESCRIBE_STRUCT(WhyView, (),
                      (id, display_id, name, user, state, summary, blockers, position, ahead_gpus, key, predicted_start,
                       prediction_basis, would_start_now, command, speeds, share))
BOOST_DESCRIBE_STRUCT(SubmitRequest, (), (spec, is_test, key))
BOOST_DESCRIBE_STRUCT(SubmitAnswer, (), (id, count, state, summary, notes, predicted_start, prediction_basis, nodes))
BOOST_DESCRIBE_STRUCT(JobSelector, (),
                      (ids, is_all, user, states, name, project, group, pools, accounts, qos, array, includes_final,
                       limit, since))
BOOST_DESCRIBE_STRUCT(ActionRequest, (), (select, signal, grace_s, reason, at, reach, holds))
BOOST_DESCRIBE_STRUCT(ActionResult, (), (id, display_id, is_done, message))
BOOST_DESCRIBE_STRUCT(ActionAnswer, (), (results))
BOOST_DESCRIBE_STRUCT(PortionRequest, (), (select, portion, to))
constexpr std::array<RenamedField, 1> RenamedFields(const PortionRequest*) { return {{{"fraction", "portion"}}}; }
BOOST_DESCRIBE_STRUCT(JobUpdate, (),
                      (select, gpus, gpu_type, gpu_memory_bytes, cpus, memory_bytes, priority, time_limit_s, begin,
                       name, project, comment, group, array_at_once, retries, command, dependencies, output, tasks,
                       placement, queues_anyway, keeps_waiting, retry_delay_s, requeues_after_reboot, script, arguments,
                       error, input, appends_output, directory, environment, warn, stop_signal, grace_s, account, pool,
                       max_gpus, topology, preemptible, nodes, constraint, node_list, excluded_nodes, portion, slice,
                       end_by, grows, providers, max_price))
constexpr std::array<RenamedField, 2> RenamedFields(const JobUpdate*) {
  return {{{"max_gpus", "gpus_most"}, {"fraction", "portion"}}};
}
BOOST_DESCRIBE_STRUCT(RestrictRequest, (), (gpus, is_all, nodes))
BOOST_DESCRIBE_STRUCT(RestrictAnswer, (), (gpus, message))
BOOST_DESCRIBE_STRUCT(IgnoreRequest, (), (gpu, pid, is_ignored, node))
BOOST_DESCRIBE_STRUCT(IgnoreRule, (), (gpu, pid, start_ticks, user, command, node))
BOOST_DESCRIBE_STRUCT(IgnoreAnswer, (), (rules, message))
BOOST_DESCRIBE_STRUCT(GroupLimitRequest, (), (group, limit))
BOOST_DESCRIBE_STRUCT(WinsizeRequest, (), (rows, columns))
BOOST_DESCRIBE_STRUCT(CheckpointRequest, (), (attempt))
BOOST_DESCRIBE_STRUCT(CheckpointAnswer, (), (id, gpus, has_changed))
BOOST_DESCRIBE_STRUCT(ProgressRequest, (), (fraction, step, steps, attempt))
BOOST_DESCRIBE_STRUCT(ProgressAnswer, (), (id, fraction, expected_end))
BOOST_DESCRIBE_STRUCT(WaitAnswer, (), (id, state, exit_code, reason, was_detached))
BOOST_DESCRIBE_STRUCT(ErrorView, (), (code, message))
BOOST_DESCRIBE_STRUCT(ChangeEvent, (), (time, kind, id, state, reason))

}  // namespace divvy::wire
