// State that a keeper leaves for its successor: one small file per tenant and one for the node, next to the tenants'
// folders. Files are replaced as a whole before each step that a successor must know about. Only the keeper can access
// them, whereas the tenants' folders belong to users. The state is not needed after a reboot, so nothing is synced.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "sharing/share.h"
#include "wire/messages/share_messages.h"

namespace divvy::keeper {

/// The operation in progress. Once the driver's part has begun, the driver reports each process's progress.
enum class Passage { kNone, kParking, kWaking, kMoving };

struct RecordedProcess {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::vector<std::string> uuids;  // Same meaning as TenantProcess::uuids.
  std::vector<Bytes> away;         // Bytes per device that the library has on the host, as far as known.
};

struct RecordedTenant {
  wire::KeeperAdd terms;
  std::vector<int> gpus;  // Its GPUs now, or before parking. Empty: not placed yet.
  bool is_parked = false;
  int parked_by = 0;         // A sharing::ParkedBy value.
  bool uses_driver = false;  // Its parked processes are checkpointed by the driver, not only emptied by the library.
  std::vector<Bytes> parked_bytes;  // Bytes per device that it needs to wake.
  Passage passage = Passage::kNone;
  std::vector<int> to;        // Target GPUs of the operation.
  bool has_restored = false;  // Processes are being restored to `to`.
  std::vector<RecordedProcess> processes;
  bool is_lost = false;       // Damaged by an operation; set until its processes have ended.
  bool is_displaced = false;  // As sharing::Tenant::is_displaced.
};

struct RecordedWhole {
  JobId job;
  GpuSet gpus;
};
struct RecordedNode {
  std::vector<wire::KeeperGpu> gpus;
  std::vector<RecordedWhole> whole_jobs;
};

class Records {
 public:
  explicit Records(std::string directory) : directory_(std::move(directory)) {}

  Status Write(const RecordedTenant& tenant) const;
  Status Write(const RecordedNode& node) const;
  void Forget(sharing::TenantId id) const;
  /// Reads the record of the node: its jobs with whole GPUs. Empty if there is no file yet.
  Result<RecordedNode> ReadNode() const;
  /// Renames the node's record, which cannot be read. Returns its new path, as the end of a sentence.
  std::string PutNodeAside() const;
  struct Found {
    std::vector<RecordedTenant> tenants;
    std::map<sharing::TenantId, std::string> troubles;  // Unreadable files and the reason. They stay in place.
  };
  Found ReadTenants() const;
  /// Returns the folders of tenants that have no record, and those that a killed keeper was creating or removing.
  std::vector<std::string> FoldersWithout() const;

 private:
  std::string directory_;
};

}  // namespace divvy::keeper
