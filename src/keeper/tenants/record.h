// What a keeper leaves for its successor: one small file for each tenant and one for the node, beside the tenants'
// folders, written as a whole (a new file over the old one) before each step that a successor has to know of. They are
// the keeper's alone: the tenants' folders belong to users. Nothing here outlives the machine, so nothing is synced.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "sharing/share.h"
#include "wire/messages/share_messages.h"

namespace divvy::keeper {

/// What a tenant is going through. Where the driver's part has begun its processes tell themselves how far they came.
enum class Passage { kNone, kParking, kWaking, kMoving };

struct RecordedProcess {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::vector<std::string> uuids;  // As TenantProcess has them.
  std::vector<Bytes> away;         // By device, what the library has of it on the host, as far as it is known.
};

struct RecordedTenant {
  wire::KeeperAdd terms;
  std::vector<int> gpus;  // Where it is, or was before it was parked; empty: nowhere yet.
  bool is_parked = false;
  int parked_by = 0;         // sharing::ParkedBy.
  bool uses_driver = false;  // Its parked processes are in the driver's hands and not only emptied by the library.
  std::vector<Bytes> parked_bytes;  // By device, what it needs to come back.
  Passage passage = Passage::kNone;
  std::vector<int> to;        // Of the passage.
  bool has_restored = false;  // The passage has begun to bring processes to `to`.
  std::vector<RecordedProcess> processes;
  bool is_lost = false;  // A passage damaged it; until its processes have ended.
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
  /// An empty node where there is none yet.
  Result<RecordedNode> ReadNode() const;
  /// Of a file of the node that cannot be read: to where it was put, as the end of a sentence.
  std::string PutNodeAside() const;
  struct Found {
    std::vector<RecordedTenant> tenants;
    std::map<sharing::TenantId, std::string> troubles;  // Files that cannot be read, and why. They are left there.
  };
  Found ReadTenants() const;
  /// Folders of tenants of which there is no record, and what was being made or removed when a keeper was killed.
  std::vector<std::string> FoldersWithout() const;

 private:
  std::string directory_;
};

}  // namespace divvy::keeper
