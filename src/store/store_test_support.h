// Helpers for the tests of this folder.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "store/store.h"

namespace divvy {

/// A temporary folder for one test, removed with the object. It is in memory if possible: these tests kill processes
/// and not machines, and waiting for a disk would only make them slow.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    const std::filesystem::path in_memory = "/dev/shm";
    const bool has_memory = ::access(in_memory.c_str(), W_OK) == 0;
    std::string name =
        ((has_memory ? in_memory : std::filesystem::temp_directory_path()) / "divvy-store-XXXXXX").string();
    DIVVY_ASSERT(::mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }

  std::string File(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline const Time kNoon = TimeFromSeconds(1'790'000'000);

inline JobRecord Job(std::uint64_t id, const std::string& name = "train") {
  JobRecord record;
  record.id = record.spec_of = JobId(id);
  record.user = {1000, 1000, "ada"};
  record.name = name;
  record.submitted = record.queued_at = kNoon + Duration(id);
  return record;
}

inline JobRecord Element(std::uint64_t array, std::uint32_t ordinal, const std::string& name = "train") {
  JobRecord record = Job(ElementId(JobId(array), ordinal).value(), name);
  record.spec_of = record.array = JobId(array);
  record.array_ordinal = record.array_index = ordinal;
  return record;
}

inline JobRecord Ended(JobRecord record, Time at, JobState state = JobState::kSucceeded) {
  record.state = state;
  record.ended = at;
  record.exit = Exit();
  return record;
}

inline std::shared_ptr<JobSpec> Spec(const std::string& command = "true") {
  auto spec = std::make_shared<JobSpec>();
  spec->command = {command};
  return spec;
}

inline Batch Insert(const std::vector<JobRecord>& records) {
  Batch batch;
  for (const JobRecord& record : records) {
    batch.inserts.push_back({record, record.array.is_set() ? nullptr : Spec()});
  }
  return batch;
}

inline Batch Update(const std::vector<JobRecord>& records) {
  Batch batch;
  batch.updates = records;
  return batch;
}

/// Returns the value of a successful result. Otherwise reports a test failure with its error.
template <typename T>
T Must(Result<T> result) {
  if (!result) ADD_FAILURE() << result.error().message;
  return result ? *std::move(result) : T();
}

inline void MustCommit(Store& store, std::vector<Batch> batches) {
  const Status done = store.Commit(batches);
  EXPECT_TRUE(done) << done.error().message;
}

using LiveJobs = std::map<JobId, JobRecord>;

inline LiveJobs Live(const std::vector<JobRecord>& records) {
  LiveJobs live;
  for (const JobRecord& record : records) live.emplace(record.id, record);
  return live;
}

inline std::vector<std::uint64_t> Ids(const LiveJobs& live) {
  std::vector<std::uint64_t> ids;
  for (const auto& [id, record] : live) ids.push_back(id.value());
  return ids;
}
inline std::vector<std::uint64_t> Ids(const std::vector<JobRecord>& records) {
  std::vector<std::uint64_t> ids;
  for (const JobRecord& record : records) ids.push_back(record.id.value());
  return ids;
}

}  // namespace divvy
