// The processes of a tenant: connections, messages and disconnections.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>

#include "keeper/tenants/peer.h"
#include "keeper/tenants/tenant.h"
#include "platform/os/process_tree.h"
#include "platform/os/unix_socket.h"

namespace divvy::keeper {
namespace {

/// Limit of a tenant's connections without hello; beyond it, the oldest is closed.
constexpr std::size_t kMostCallers = 256;
/// A process says hello right after connecting.
constexpr Duration kHelloTimeout = 5s;
constexpr int kCallersAtOnce = 64;
constexpr int kMostAside = 100;

int OpenPidfd(std::int64_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)); }

}  // namespace

struct Tenant::Caller {
  std::uint64_t number = 0;
  ForeignDescriptor link;
  Peer peer;
  EventLoop::TimerId alarm;
};

Status Tenant::OpenSocket(int folder) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Uses the folder's descriptor, so that the path is never too long and cannot lead elsewhere.
  const std::string path = "/proc/self/fd/" + std::to_string(folder) + "/" + share::kLinkSocket;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  // The user may have put something there that cannot be removed at once.
  bool is_free = ::unlinkat(folder, share::kLinkSocket, 0) == 0 || errno == ENOENT;
  for (int i = 0; !is_free && i < kMostAside; ++i) {
    const std::string aside = std::string(share::kLinkSocket) + ".aside." + std::to_string(i);
    is_free = ::renameat2(folder, share::kLinkSocket, folder, aside.c_str(), RENAME_NOREPLACE) == 0;
  }
  // Any process that can enter the folder may connect. The mode is set before the socket has a name, so that no path
  // under the user's control is modified.
  if (!socket.is_open() || ::fchmod(socket.get(), 0666) != 0 ||
      ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 128) != 0)
    return Internal("making the socket of " + folder_ + ": " + std::strerror(errno));
  listener_ = std::move(socket);
  return {};
}

void Tenant::Listen(TenantEvents events) {
  events_ = std::move(events);
  loop_.Watch(listener_.get(), [this] { AcceptAll(); });
}

void Tenant::AcceptAll() {
  for (int i = 0; i < kCallersAtOnce; ++i) {
    ForeignDescriptor link(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!link.is_open()) return;
    Peer peer = PeerOf(link.get());
    // Only the job's own user may use the link. Others can reach it if the folder was opened to all.
    if (peer.uid != static_cast<std::int64_t>(uid_) || !peer.life.is_open()) continue;
    if (callers_.size() >= kMostCallers) {
      HangUp(*callers_.begin()->second);
      callers_.erase(callers_.begin());
    }
    const auto caller = std::make_shared<Caller>();
    caller->number = next_caller_++;
    caller->link = std::move(link);
    caller->peer = std::move(peer);
    caller->alarm = loop_.After(kHelloTimeout, [this, number = caller->number] {
      const auto found = callers_.find(number);
      HangUp(*found->second);
      callers_.erase(found);
    });
    callers_[caller->number] = caller;
    loop_.Watch(caller->link.get(), [this, caller] { OnCaller(caller); });
  }
}

void Tenant::HangUp(const Caller& caller) {
  loop_.Forget(caller.link.get());
  loop_.Cancel(caller.alarm);
}

void Tenant::OnCaller(const std::shared_ptr<Caller>& caller) {
  share::Message hello{};
  const ssize_t size = ReceiveForeign(caller->link.get(), &hello, sizeof hello, MSG_DONTWAIT | MSG_TRUNC).size;
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  HangUp(*caller);
  callers_.erase(caller->number);
  if (size == sizeof hello && hello.word == share::Word::kHello) Welcome(caller, hello);
}

std::optional<Slot> Tenant::SlotFor(const Caller& caller, const share::Message& hello, TenantProcess& process) {
  const auto missing = missing_.find(hello.process);
  if (missing != missing_.end() && missing->second.pid == caller.peer.pid && generations_[hello.process] == hello.id) {
    process.residual = missing->second.residual;
    process.away = missing->second.away;
    ForgetMissing(hello.process);
    return hello.process;
  }
  // This process has executed another program (exec) since it had its earlier slot, so its GPU memory of that time is
  // gone.
  std::set<Slot> former;
  for (const auto& [slot, before] : missing_) {
    if (before.pid == caller.peer.pid) former.insert(slot);
  }
  for (const Slot slot : former) {
    ForgetMissing(slot);
    ClearSlot(slot);
  }
  for (Slot slot = 0; slot < share::kMaxProcesses; ++slot) {
    if (processes_.contains(slot) || missing_.contains(slot)) continue;
    ClearSlot(slot);
    ++generations_[slot];
    return slot;
  }
  return std::nullopt;
}

void Tenant::Welcome(const std::shared_ptr<Caller>& caller, const share::Message& hello) {
  TenantProcess process;
  process.pid = caller->peer.pid;
  process.start_ticks = IdentifyProcess(static_cast<pid_t>(process.pid)).start_ticks;
  // The pid was valid until now; from here on its end is detected.
  if (HasEnded(caller->peer.life.get())) return;
  process.link = std::move(caller->link);
  const std::optional<Slot> slot = has_page() ? SlotFor(*caller, hello, process) : std::nullopt;
  if (!slot) {
    share::Message no{};
    no.word = share::Word::kDenied;
    no.process = share::kNoSlot;
    if (has_page()) {
      no.result = share::kAllSlotsTaken;
      std::snprintf(no.text, sizeof no.text,
                    "the job already has %u processes on GPUs, the most that a job on GPU fractions may have; end one",
                    share::kMaxProcesses);
    } else {
      no.result = share::kPageBroken;
      std::snprintf(no.text, sizeof no.text, "the job's page was overwritten; start the job again");
    }
    ::send(process.link.get(), &no, sizeof no, MSG_DONTWAIT | MSG_NOSIGNAL);
    return;
  }
  process.life = std::move(caller->peer.life);
  process.generation = generations_[*slot];
  share::PageProcess& shown = map_->page().processes[*slot];
  process.launches = process.turn_launches = Launches(*slot);
  __atomic_store_n(&shown.host_pid, static_cast<std::int32_t>(process.pid), __ATOMIC_RELEASE);
  __atomic_store_n(&shown.generation, process.generation, __ATOMIC_RELEASE);
  // A residual that was measured before stays valid; otherwise the expected value is used.
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (process.residual[i] == 0) process.residual[i] = devices_[i].expected_residual;
    __atomic_store_n(&shown.residual[i], process.residual[i], __ATOMIC_RELEASE);
  }
  __atomic_store_n(&shown.is_taken, 1, __ATOMIC_RELEASE);
  const Slot taken = *slot;
  loop_.Watch(process.link.get(), [this, taken] { OnLink(taken); });
  // Watches the process itself, because a forked child may keep the connection open after its end.
  loop_.Watch(process.life.get(), [this, taken] { Drop(taken); });
  processes_[taken] = std::move(process);
  share::Message welcome{};
  welcome.word = share::Word::kWelcome;
  welcome.process = taken;
  welcome.id = generations_[taken];
  welcome.bytes = map_->inode();
  if (Send(taken, welcome)) events_.came(taken);
}

void Tenant::OnLink(Slot slot) {
  // Messages beyond the limit are read in the loop's next iteration.
  for (; words_left_ > 0; --words_left_) {
    const auto found = processes_.find(slot);
    if (found == processes_.end()) return;
    share::Message message{};
    const ssize_t size =
        ReceiveForeign(found->second.link.get(), &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC).size;
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size != sizeof message) return Drop(slot);  // End of file, an error, or an invalid message.
    message.text[sizeof message.text - 1] = '\0';
    message.process = slot;
    const bool has_device = message.word == share::Word::kWant || message.word == share::Word::kDrained ||
                            message.word == share::Word::kYield || message.word == share::Word::kAsk;
    if (has_device && message.device >= devices_.size()) return Drop(slot);
    events_.said(slot, message);
  }
}

bool Tenant::Send(Slot slot, share::Message message) {
  const auto found = processes_.find(slot);
  if (found == processes_.end()) return false;
  if (::send(found->second.link.get(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof message)
    return true;
  if (errno == EINTR) return Send(slot, message);
  // The process is disconnected later, because the caller may be iterating over the processes.
  const std::uint32_t generation = found->second.generation;
  loop_.At(loop_.Now(), [this, slot, generation, alive = std::weak_ptr<bool>(is_alive_)] {
    if (alive.expired()) return;
    const auto still = processes_.find(slot);
    if (still != processes_.end() && still->second.generation == generation) Drop(slot);
  });
  return false;
}

void Tenant::SendAll(const share::Message& message) {
  for (const auto& [slot, process] : processes_) Send(slot, message);
}

void Tenant::Drop(Slot slot) {
  const auto found = processes_.find(slot);
  if (found == processes_.end()) return;
  TenantProcess process = std::move(found->second);
  loop_.Forget(process.link.get());
  loop_.Forget(process.life.get());
  processes_.erase(found);
  if (HasEnded(process.life.get())) {
    ClearSlot(slot);
  } else {
    AwaitReturn(slot, Missing{process.pid, std::move(process.life), process.residual, process.away});
  }
  if (events_.gone) events_.gone(slot);
}

// Keeps a process that has lost its connection as missing: it still runs, so its GPU memory counts until it connects
// again or ends.
void Tenant::AwaitReturn(Slot slot, Missing missing) {
  const int life = missing.life.get();
  missing_[slot] = std::move(missing);
  loop_.Watch(life, [this, slot] {
    ForgetMissing(slot);
    ClearSlot(slot);
    if (events_.gone) events_.gone(slot);
  });
}

void Tenant::ForgetMissing(Slot slot) {
  loop_.Forget(missing_.at(slot).life.get());
  missing_.erase(slot);
}

void Tenant::ClearSlot(Slot slot) {
  if (map_ == nullptr) return;
  share::Page& page = map_->page();
  share::UnlockPage(page, share::LockedBySlot(slot));  // It may have died with the lock.
  // If another process holds the page's lock, continues without it. That is safe, because the sum of used memory only
  // decreases here.
  const bool is_locked = map_->Lock();
  share::PageProcess& shown = page.processes[slot];
  __atomic_store_n(&shown.is_taken, 0, __ATOMIC_RELEASE);
  for (unsigned i = 0; i < share::kMaxDevices; ++i) {
    __atomic_store_n(&shown.used[i], 0, __ATOMIC_RELEASE);
    __atomic_store_n(&shown.residual[i], 0, __ATOMIC_RELEASE);
  }
  shown.host_pid = 0;
  __atomic_store_n(&shown.flags, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&shown.entered, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&shown.waiting, 0, __ATOMIC_RELEASE);
  __atomic_store_n(&shown.launches, 0, __ATOMIC_RELEASE);
  if (is_locked) map_->Unlock();
}

void Tenant::AdoptSlots() {
  for (Slot slot = 0; slot < share::kMaxProcesses; ++slot) {
    const share::PageProcess& shown = map_->page().processes[slot];
    generations_[slot] = __atomic_load_n(&shown.generation, __ATOMIC_ACQUIRE);
    if (__atomic_load_n(&shown.is_taken, __ATOMIC_ACQUIRE) == 0) continue;
    const std::int32_t pid = __atomic_load_n(&shown.host_pid, __ATOMIC_ACQUIRE);
    Descriptor life(pid > 0 ? OpenPidfd(pid) : -1);
    if (!life.is_open()) {
      ClearSlot(slot);
      continue;
    }
    // A reused pid keeps its slot until that process ends or the tenant is removed; only the job's own share is
    // affected.
    Missing missing{pid, std::move(life), {}, {}};
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      const std::uint64_t known = __atomic_load_n(&shown.residual[i], __ATOMIC_ACQUIRE);
      missing.residual[i] = known <= devices_[i].limit ? known : devices_[i].expected_residual;
    }
    AwaitReturn(slot, std::move(missing));
  }
}

}  // namespace divvy::keeper
