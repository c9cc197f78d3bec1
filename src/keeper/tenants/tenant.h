// The interface between a tenant and its processes on this node: the folder with page and socket, a slot for each
// connected process, and the messages to and from them. src/sharing decides what the tenant may have; this class writes
// it where the processes see it. Nothing that they report or write is trusted: the authoritative gates and ceilings are
// stored here, not in the page.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/result.h"
#include "keeper/drivers/event_loop.h"
#include "keeper/tenants/folder_remover.h"
#include "keeper/tenants/page_map.h"
#include "keeper/tenants/residual.h"
#include "platform/gpu/tenant_link.h"
#include "platform/os/foreign_descriptor.h"
#include "platform/os/unique_fd.h"
#include "sharing/share.h"

namespace divvy::keeper {

using Slot = std::uint32_t;

/// How far a process has left its GPUs. A process moves through these states one step at a time.
enum Depth : int {
  kAtWork = 0,
  kEmptied = 1,       // The library has copied its data to the host.
  kLocked = 2,        // The driver blocks its calls.
  kCheckpointed = 3,  // The driver has saved the rest; nothing is left on the GPU.
};

/// A connected process of a tenant, from its hello until it ends or loses its connection. A live process without a
/// connection keeps its slot, and its memory counts until it ends.
struct TenantProcess {
  ForeignDescriptor link;
  Descriptor life;  // pidfd.
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint32_t generation = 0;
  std::uint64_t launches = 0;       // At the last check of its counter.
  std::uint64_t turn_launches = 0;  // At the start of its turn.
  std::array<std::uint64_t, share::kMaxDevices> residual{};
  std::array<ResidualSights, share::kMaxDevices> sights{};
  int depth = kAtWork;
  std::array<std::uint64_t, share::kMaxDevices> away{};  // Bytes that the library keeps on the host.
  std::vector<std::string> uuids;  // GPUs that the driver associates with it, by device, while it is not kAtWork.
};

struct TenantDevice {
  std::string uuid;
  std::uint32_t gpu = 0;
  std::uint64_t request = 0;
  std::uint64_t limit = 0;
  std::uint64_t ceiling = 0;
  bool is_whole = false;  // Nothing is refused, and the program sees the driver's figures. The same for all devices.
  share::Gate gate = share::kShut;
  /// Estimated driver memory of a process, in bytes. Counted from its hello until a measurement exists.
  std::uint64_t expected_residual = 0;
};

/// Callbacks to the tenant's owner, called from the loop.
struct TenantEvents {
  std::function<void(Slot)> came;
  std::function<void(Slot, const share::Message&)> said;
  std::function<void(Slot)> gone;  // The slot has already been removed from processes().
};

class Tenant {
 public:
  /// Creates the tenant's folder `directory`/JOB.ATTEMPT with its shared-memory page and its socket, completely or not
  /// at all. `devices`: the initial values in the page.
  static Result<std::unique_ptr<Tenant>> Create(EventLoop& loop, FolderRemover& remover, const std::string& directory,
                                                sharing::TenantId id, uid_t uid, gid_t gid,
                                                std::vector<TenantDevice> devices);
  /// Takes over a tenant of an earlier keeper. Its shared-memory page is kept, and its processes will connect again. A
  /// broken page is not an error; has_page() is false then. Errors: kNotFound if the folder is gone.
  static Result<std::unique_ptr<Tenant>> Adopt(EventLoop& loop, FolderRemover& remover, const std::string& directory,
                                               sharing::TenantId id, uid_t uid, std::vector<TenantDevice> devices);
  ~Tenant();
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  void Listen(TenantEvents events);
  /// Removes the tenant's folder with its shared-memory page and socket. Call this last.
  void RemoveFolder();

  sharing::TenantId id() const { return id_; }
  const std::string& folder() const { return folder_; }
  const std::vector<TenantDevice>& devices() const { return devices_; }
  std::map<Slot, TenantProcess>& processes() { return processes_; }
  const std::map<Slot, TenantProcess>& processes() const { return processes_; }
  bool has_page() const { return map_ != nullptr && map_->is_sound(); }

  // --- State visible to its processes --------------------------------------------------------------------------------

  /// Sets whether the tenant's processes may submit work to this device, and wakes the threads that wait for it.
  void SetGate(unsigned device, share::Gate gate);
  void SetAllGates(share::Gate gate);
  /// Sets how much memory the tenant may use on this device now (its ceiling), but not below the present use. Returns
  /// the resulting ceiling, which exceeds `bytes` if more is in use. Returns std::nullopt if a process holds the lock
  /// of the shared-memory page; the caller then tries again later.
  std::optional<std::uint64_t> SetCeiling(unsigned device, std::uint64_t bytes);
  void SetTerms(std::uint64_t request, std::uint64_t limit);
  void SetPlace(unsigned device, const std::string& uuid, std::uint32_t gpu);
  /// Records that the driver counted `has` bytes for this process on the device. Returns a lower bound, in bytes, of
  /// the process's residual: its memory beyond what it reports itself (see ResidualSights).
  std::uint64_t SeeMemory(Slot slot, unsigned device, std::uint64_t has);
  void ExpectResidual(unsigned device, std::uint64_t bytes) { devices_[device].expected_residual = bytes; }
  /// Sets how many bytes of this process an earlier keeper has moved to host memory. The process has not connected to
  /// this keeper yet.
  void ExpectAway(std::int64_t pid, unsigned device, std::uint64_t bytes);
  /// Sends a message to a process. Returns false if the process is not connected. If it does not read its messages, it
  /// is disconnected, and the result is false too.
  bool Send(Slot slot, share::Message message);
  void SendAll(const share::Message& message);

  // --- Values reported in the page, each limited to a plausible range ------------------------------------------------

  /// Returns the bytes that all processes use on this device. That is the memory that they report, also where it is on
  /// the host now, plus what the driver counts beyond their report. The reports count at most up to the tenant's
  /// ceiling, or up to its limit if memory is on the host and the limit is higher.
  std::uint64_t Used(unsigned device) const;
  std::uint64_t UsedBy(Slot slot, unsigned device) const;
  std::uint32_t Flags() const;
  std::uint64_t Launches(Slot slot) const;
  std::uint32_t Waiting(Slot slot) const;
  std::uint32_t Entered(Slot slot) const;
  /// Returns the number of processes that had registered with an earlier keeper and have not connected to this one yet.
  std::size_t missing() const { return missing_.size(); }
  bool IsMissingAny(const std::set<std::int64_t>& pids) const;

  /// Closes the connection to a process and forgets it.
  void Drop(Slot slot);
  /// Call this at the start of each iteration of the event loop. In one iteration, only a limited number of messages is
  /// read from all processes of a tenant together.
  void BeginTurn() { words_left_ = kWordsInATurn; }

 private:
  static constexpr int kWordsInATurn = 64;
  Tenant(EventLoop& loop, FolderRemover& remover, std::string folder, sharing::TenantId id, uid_t uid)
      : loop_(loop), remover_(remover), folder_(std::move(folder)), id_(id), uid_(uid) {}
  Status OpenSocket(int folder);
  void WriteDevice(unsigned device);
  void AcceptAll();
  struct Caller;
  void OnCaller(const std::shared_ptr<Caller>& caller);
  void HangUp(const Caller& caller);
  void Welcome(const std::shared_ptr<Caller>& caller, const share::Message& hello);
  void OnLink(Slot slot);
  void ClearSlot(Slot slot);
  void AdoptSlots();
  struct Missing;
  void AwaitReturn(Slot slot, Missing missing);
  void ForgetMissing(Slot slot);
  std::optional<Slot> SlotFor(const Caller& caller, const share::Message& hello, TenantProcess& process);

  EventLoop& loop_;
  FolderRemover& remover_;
  std::string folder_;
  sharing::TenantId id_;
  uid_t uid_;
  TenantEvents events_;
  Descriptor listener_;
  std::unique_ptr<PageMap> map_;
  std::vector<TenantDevice> devices_;
  std::map<Slot, TenantProcess> processes_;
  struct Missing {
    std::int64_t pid = 0;
    Descriptor life;
    std::array<std::uint64_t, share::kMaxDevices> residual{};
    std::array<std::uint64_t, share::kMaxDevices> away{};
  };
  std::map<Slot, Missing> missing_;
  std::map<std::uint64_t, std::shared_ptr<Caller>> callers_;  // Callers that have not sent hello yet, oldest first.
  std::uint64_t next_caller_ = 1;
  int words_left_ = kWordsInATurn;
  std::array<std::uint32_t, share::kMaxProcesses> generations_{};
  int refused_locks_ = 0;                                          // Consecutive failures.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // Expires with the tenant; deferred calls check it.
};

}  // namespace divvy::keeper
