// The run record: one small file per started job, RUN_DIRECTORY/ID. The job's supervisor writes it; the daemon reads it
// after a restart. It names the supervisor and the job's first process and, at the end, how the job ended. The
// supervisor holds a lock on it as long as it lives. docs/run-record.md describes the format.
//
// Invariant: a record names the job's process before any of the job's code has run, and holds an exit before the
// supervisor leaves. So whatever is killed at any time, the record and /proc together give the true state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "model/gpus/gpu.h"
#include "model/job.h"
#include "model/run_record.h"
#include "platform/os/record_text.h"

namespace divvy {

/// Returns the state of a started job, from its run record and, if that is not enough, from /proc.
RunState StateOf(const RunRecord& record);

/// Returns every record in `run_directory`, ascending by job. Skips files that are not records. An empty file (its
/// supervisor was killed at once) is a record of that job with no other fields. Requires: no launcher of an earlier
/// daemon is alive there, which ProcessLauncher::Start ensures; otherwise a job that it is just starting could be
/// missed.
Result<std::vector<RunRecord>> ScanRunDirectory(const std::string& run_directory);

/// Reads one record; kNotFound if there is none.
Result<RunRecord> ReadRunRecord(const std::string& run_directory, JobId job);

/// The file from which an elastic job reads which GPUs it may use: one line in the format of CUDA_VISIBLE_DEVICES,
/// replaced atomically.
std::string GpusFile(const std::string& run_directory, JobId job);
/// Reads the GPUs that an elastic job may use. Returns nullopt if the file does not exist or cannot be read.
std::optional<GpuSet> ReadGpusFile(const std::string& run_directory, JobId job);
Status WriteGpusFile(const std::string& run_directory, JobId job, GpuSet gpus);

/// Removes the record and what belongs to it (script, cgroup, list of GPUs), and sets aside the job's own /tmp for
/// RemoveOldTmps(). Call it once the end of the job is stored durably elsewhere. Succeeds if it is already gone.
void RemoveRunRecord(const std::string& run_directory, const RunRecord& record);

/// A run record is written in three sections: AddWatch writes the supervisor's, AddProcess the process's, and AddExit
/// that of the exit.
void AddWatch(const RunRecord& record, RecordWriter& out);
void AddProcess(const RunRecord& record, RecordWriter& out);
void AddExit(const RunRecord& record, RecordWriter& out);
RunRecord ReadRecordFields(const RecordFields& fields);

}  // namespace divvy
