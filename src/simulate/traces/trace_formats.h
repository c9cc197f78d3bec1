// Reads published traces in their original formats (.gz too). Each format has one small file; all are used through
// ReadWorkload. A line that violates the format is an error with file and line. Documented gaps (a job that never
// started, an unknown user) are accepted, or left out and counted in the notes.
//
//   helios     SC'21: job_id, submit_time, gpu_num, duration (or duration_capped_s), ...; and the slice of two virtual
//              clusters: job_id, user, tenant, submit_time [us], num_chips, duration_s, ... with its nodes in comments
//   philly     timestamp, duration [s], num_gpus, cluster
//   pollux     name, time [s], application, num_replicas, batch_size: also Sia's; run times follow from profiles
//   gavel      TSV without titles, 9 columns (physical cluster) or 6 (Philly's virtual clusters, one file each)
//   shockwave  TSV without titles, 11 columns with mode and duration
//   muri       job_id, num_gpu, submit_time [ms], duration [ms], ...
//   tiresias   the same in seconds; ElasticFlow's as well
//   pai        job_id, arrival_s, service_sec, gpu_count
//   openb      name, num_gpu, gpu_parts, ..., creation_time, scheduled_time, deletion_time
//   sacct      Slurm's accounting: sacct -P (or -p) with titles; JobID, Submit, a run time and AllocTRES or ReqTRES
//   swf        Standard Workload Format 2.2; it knows processors only, and each counts as one GPU
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "simulate/traces/workload.h"

namespace divvy::simulate {

/// Returns the names of the trace formats, in the order of the list above.
const std::vector<std::string_view>& TraceFormats();

/// Reads `paths` as one trace. Fails on an unknown format, naming the nearest, and on a trace without jobs.
Result<Workload> ReadWorkload(std::string_view format, const std::vector<std::string>& paths);

/// Reads a file of nodes, whose format is detected from its titles: openb (sn, cpu_milli, memory_mib, gpu, model),
/// Philly's virtual clusters (vc, node num: nodes of 8 GPUs), PAI (machine, gpu_type, cap_cpu, cap_mem, cap_gpu),
/// Tiresias (num_switch, num_node_p_switch, num_gpu_p_node, ...). Nodes without GPUs are left out.
Result<TraceCluster> ReadCluster(const std::string& path);

}  // namespace divvy::simulate
