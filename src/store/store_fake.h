// A store in memory for the tests and the simulator. It gives the same answers as the SQLite store, which
// store_contract_test.cc checks. Committed data lives as long as the object, so a restart is a second Load().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "store/store.h"

namespace divvy {

class MemoryStore : public Store {
 public:
  /// The next commit fails as if the disk were full. Later ones succeed.
  void FailNextCommit();
  /// While `is_away` is true, Find and Spec fail as if the database did not answer.
  void SetAway(bool is_away);
  /// Number of successful commits, without empty ones.
  std::uint64_t commits() const;

  Status Commit(const std::vector<Batch>& batches) override;
  Result<Loaded> Load() override;
  Result<bool> PruneStep(Time finished_before) override;

  Result<JobRecord> Find(JobId id) override;
  Result<JobSpec> Spec(JobId id) override;
  Result<std::vector<JobRecord>> History(const HistoryFilter& filter) override;
  Result<std::vector<Batch::HistoryLine>> HistoryOf(JobId id) override;
  Result<std::vector<JobRecord>> PastRuns(Time since, std::uint64_t limit) override;
  Result<std::vector<Batch::HistoryLine>> LatestHistory(std::uint64_t limit) override;
  Result<std::optional<JobId>> LastOf(std::int64_t uid, std::uint64_t back) override;
  Result<std::vector<JobId>> Named(const std::string& name, const std::string& user) override;

 private:
  Status Check(const std::vector<Batch>& batches) const;
  void Apply(const Batch& batch);
  bool HasOwnName(const JobRecord& record) const;
  bool HasElements(JobId array) const;

  mutable std::mutex mutex_;
  std::map<JobId, JobRecord> jobs_;
  std::map<JobId, std::shared_ptr<const JobSpec>> specs_;
  std::vector<Batch::HistoryLine> history_;  // In the order of their commits.
  std::vector<JobRecord> past_runs_;         // In the order of their commits.
  std::map<std::string, std::string> settings_;
  std::uint64_t next_id_ = 1;
  std::uint64_t jobs_total_ = 0;
  bool fails_next_commit_ = false;
  bool is_away_ = false;
  std::uint64_t commits_ = 0;
};

std::unique_ptr<MemoryStore> MakeMemoryStore();

}  // namespace divvy
