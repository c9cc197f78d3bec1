// One tenant on this node as its processes meet it: the folder with the page and the socket, a slot for each process
// that says hello, and the words to and from them. What it may have is decided elsewhere (src/sharing); here it is
// written where the processes see it. Nothing that they say or write is trusted: the keeper's own record of gates and
// ceilings is in here and not in the page.
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
#include "platform/os/launch_descriptor.h"
#include "sharing/share.h"

namespace divvy::keeper {

using Slot = std::uint32_t;

/// How far a process has left its GPUs. One goes down and up by single steps.
enum Depth : int {
  kAtWork = 0,
  kEmptied = 1,       // The library has its data on the host.
  kLocked = 2,        // The driver lets nothing of it through.
  kCheckpointed = 3,  // The driver has the rest of it; nothing is left on the GPU.
};

/// A process of a tenant, from its hello to its end or the end of its connection. One that lives on without its
/// connection keeps its slot, and what it has counts until it has ended.
struct TenantProcess {
  ForeignDescriptor link;
  Descriptor life;  // pidfd.
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;
  std::uint32_t generation = 0;
  std::uint64_t launches = 0;       // As of the last look at its counter.
  std::uint64_t turn_launches = 0;  // As its turn began.
  std::array<std::uint64_t, share::kMaxDevices> residual{};
  std::array<ResidualSights, share::kMaxDevices> sights{};
  int depth = kAtWork;
  std::array<std::uint64_t, share::kMaxDevices> away{};  // Bytes that the library has on the host.
  std::vector<std::string> uuids;                        // Where the driver has it, by device, while it is not at work.
};

struct TenantDevice {
  std::string uuid;
  std::uint32_t gpu = 0;
  std::uint64_t request = 0;
  std::uint64_t limit = 0;
  std::uint64_t ceiling = 0;
  share::Gate gate = share::kShut;
  /// What the driver will need for a process, for all that is known: counted from its hello until it has been seen.
  std::uint64_t expected_residual = 0;
};

/// What a tenant says to who keeps it. All are called from the loop.
struct TenantEvents {
  std::function<void(Slot)> came;
  std::function<void(Slot, const share::Message&)> said;
  std::function<void(Slot)> gone;  // It is out of the table already.
};

class Tenant {
 public:
  /// Makes folder, page and socket: `directory`/JOB.ATTEMPT, all of it or nothing. `devices` as they are at first.
  static Result<std::unique_ptr<Tenant>> Create(EventLoop& loop, FolderRemover& remover, const std::string& directory,
                                                sharing::TenantId id, uid_t uid, gid_t gid,
                                                std::vector<TenantDevice> devices);
  /// The same of a tenant that an earlier keeper had: its page stays as it is, its slots wait for their processes. A
  /// page that is broken is no error: has_page() is false then. kNotFound: its folder is gone.
  static Result<std::unique_ptr<Tenant>> Adopt(EventLoop& loop, FolderRemover& remover, const std::string& directory,
                                               sharing::TenantId id, uid_t uid, std::vector<TenantDevice> devices);
  ~Tenant();
  Tenant(const Tenant&) = delete;
  Tenant& operator=(const Tenant&) = delete;

  void Listen(TenantEvents events);
  /// Takes the folder away; the last thing that is done with a tenant.
  void RemoveFolder();

  sharing::TenantId id() const { return id_; }
  const std::string& folder() const { return folder_; }
  const std::vector<TenantDevice>& devices() const { return devices_; }
  std::map<Slot, TenantProcess>& processes() { return processes_; }
  const std::map<Slot, TenantProcess>& processes() const { return processes_; }
  bool has_page() const { return map_ != nullptr && map_->is_sound(); }

  // --- What its processes see
  // -----------------------------------------------------------------------------------------

  /// Wakes all who wait at it.
  void SetGate(unsigned device, share::Gate gate);
  void SetAllGates(share::Gate gate);
  /// Never below what it uses. The ceiling that holds now, which is higher than `bytes` where more is in use; nothing
  /// when the page is locked at the moment: to be tried again.
  std::optional<std::uint64_t> SetCeiling(unsigned device, std::uint64_t bytes);
  void SetTerms(std::uint64_t request, std::uint64_t limit);
  void SetPlace(unsigned device, const std::string& uuid, std::uint32_t gpu);
  /// The driver counted `has` bytes of a process since the last call. Returns the bytes that it has for sure beyond
  /// what it says.
  std::uint64_t SeeMemory(Slot slot, unsigned device, std::uint64_t has);
  void ExpectResidual(unsigned device, std::uint64_t bytes) { devices_[device].expected_residual = bytes; }
  /// Of one that an earlier keeper brought to the host, and that has not dialled yet.
  void ExpectAway(std::int64_t pid, unsigned device, std::uint64_t bytes);
  /// False: the process is not there, or does not read what it is sent; then it is dropped.
  bool Send(Slot slot, share::Message message);
  void SendAll(const share::Message& message);

  // --- What they do: as their page says, each number bounded by what it could be -------------------------------------

  /// Bytes of all processes together: what they say to have, or to have had when it was brought to the host, up to the
  /// ceiling, and what the driver says beyond that.
  std::uint64_t Used(unsigned device) const;
  std::uint64_t UsedBy(Slot slot, unsigned device) const;
  std::uint32_t Flags() const;
  std::uint64_t Launches(Slot slot) const;
  std::uint32_t Waiting(Slot slot) const;
  std::uint32_t Entered(Slot slot) const;
  /// Processes that have a slot and live, but no connection: they dial again.
  std::size_t missing() const { return missing_.size(); }
  bool IsMissingAny(const std::set<std::int64_t>& pids) const;

  /// Hangs up on a process.
  void Drop(Slot slot);
  /// A new turn of the loop: each tenant's words are heard up to a bound in one, all processes together.
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
  std::map<std::uint64_t, std::shared_ptr<Caller>> callers_;  // That have not said hello yet, the oldest first.
  std::uint64_t next_caller_ = 1;
  int words_left_ = kWordsInATurn;
  std::array<std::uint32_t, share::kMaxProcesses> generations_{};
  int refused_locks_ = 0;                                          // One after the other.
  std::shared_ptr<bool> is_alive_ = std::make_shared<bool>(true);  // For what is put off.
};

}  // namespace divvy::keeper
