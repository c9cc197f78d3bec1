#include "simulate/history.h"

#include <algorithm>

#include "base/text.h"

namespace divvy::simulate {

Workload WorkloadOf(std::span<const JobRecord> records) {
  Workload workload;
  std::int64_t left_out = 0;
  for (const JobRecord& record : records) {
    if (record.array_count > 0) continue;
    if (!IsFinal(record.state) || record.started == kNoTime || record.ended < record.started) {
      ++left_out;
      continue;
    }
    TraceJob job;
    job.id = ToString(record.id);
    job.user = record.user.name;
    job.team = record.project;
    job.name = record.name;
    job.kind = Name(record.state);
    job.submit = record.begin > record.submitted ? record.begin : record.submitted;
    job.runtime = record.ended - record.started;
    job.limit = record.time_limit;
    job.gpus = std::max(record.request.gpus, record.gpus.size());
    job.cpus = record.request.cpus;
    job.memory = record.request.memory;
    job.gpu_type = record.request.gpu_type;
    job.priority = record.priority;
    job.published_start = record.started;
    job.published_end = record.ended;
    workload.jobs.push_back(std::move(job));
  }
  if (left_out > 0) workload.notes.push_back(Plural(left_out, "job") + " left out: not started or still running");
  Arrange(workload);
  return workload;
}

}  // namespace divvy::simulate
