// The processes of a tenant: how they come, speak and go.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "keeper/tenant.h"
#include "platform/process_tree.h"
#include "platform/unix_socket.h"

namespace divvy::keeper {
namespace {

/// Connections of one tenant that have not said hello: more are not taken, the oldest makes room.
constexpr std::size_t kMostCallers = 256;
/// Messages of one process before others get their turn of the loop.
constexpr int kMessagesAtOnce = 64;

int OpenPidfd(std::int64_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(pid), 0)); }

}  // namespace

struct Tenant::Caller {
  Descriptor link;
  std::int64_t pid = 0;
};

Status Tenant::OpenSocket(int folder) {
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // By the folder's descriptor: no path is too long, and none leads elsewhere.
  const std::string path = "/proc/self/fd/" + std::to_string(folder) + "/" + share::kLinkSocket;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ::unlinkat(folder, share::kLinkSocket, 0);
  // Who may enter the folder may connect. The mode is the socket's before it has a name, so that nothing is changed
  // through a name that is in a user's hands.
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
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    Descriptor link(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!link.is_open()) return;
    if (callers_.size() >= kMostCallers) {
      loop_.Forget(callers_.begin()->first);
      callers_.erase(callers_.begin());
    }
    const auto caller = std::make_shared<Caller>();
    caller->pid = CredentialsOf(link.get()).pid;
    const int fd = link.get();
    caller->link = std::move(link);
    callers_[fd] = caller;
    loop_.Watch(fd, [this, caller] { OnCaller(caller); });
  }
}

void Tenant::OnCaller(const std::shared_ptr<Caller>& caller) {
  share::Message hello{};
  const int fd = caller->link.get();
  const ssize_t size = ::recv(fd, &hello, sizeof hello, MSG_DONTWAIT | MSG_TRUNC);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
  loop_.Forget(fd);
  callers_.erase(fd);
  if (size == sizeof hello && hello.word == share::Word::kHello) Welcome(caller, hello);
}

std::optional<Slot> Tenant::SlotFor(const Caller& caller, const share::Message& hello) {
  // It had one of an earlier keeper, and nobody else has it.
  const auto missing = missing_.find(hello.process);
  if (missing != missing_.end() && missing->second.pid == caller.pid && generations_[hello.process] == hello.id) {
    loop_.Forget(missing->second.life.get());
    missing_.erase(missing);
    return hello.process;
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
  process.pid = caller->pid;
  process.start_ticks = IdentifyProcess(static_cast<pid_t>(caller->pid)).start_ticks;
  process.life.Reset(OpenPidfd(caller->pid));
  process.link = std::move(caller->link);
  const std::optional<Slot> slot = map_ == nullptr ? std::nullopt : SlotFor(*caller, hello);
  if (!slot) {
    share::Message no{};
    no.word = share::Word::kDenied;
    no.process = share::kNoSlot;
    std::snprintf(no.text, sizeof no.text, "the job has %u processes on GPUs already", share::kMaxProcesses);
    ::send(process.link.get(), &no, sizeof no, MSG_DONTWAIT | MSG_NOSIGNAL);
    return;
  }
  process.generation = generations_[*slot];
  share::PageProcess& shown = map_->page().processes[*slot];
  process.launches = process.turn_launches = Launches(*slot);
  __atomic_store_n(&shown.host_pid, static_cast<std::int32_t>(process.pid), __ATOMIC_RELEASE);
  __atomic_store_n(&shown.generation, process.generation, __ATOMIC_RELEASE);
  // What an earlier keeper has measured goes on to count.
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const std::uint64_t known = __atomic_load_n(&shown.residual[i], __ATOMIC_ACQUIRE);
    process.residual[i] = known > 0 && known <= devices_[i].limit ? known : devices_[i].expected_residual;
    __atomic_store_n(&shown.residual[i], process.residual[i], __ATOMIC_RELEASE);
  }
  __atomic_store_n(&shown.is_taken, 1, __ATOMIC_RELEASE);
  const Slot taken = *slot;
  loop_.Watch(process.link.get(), [this, taken] { OnLink(taken); });
  // Its end is seen also where a child that it forked holds the connection open.
  if (process.life.is_open()) loop_.Watch(process.life.get(), [this, taken] { Drop(taken); });
  processes_[taken] = std::move(process);
  share::Message welcome{};
  welcome.word = share::Word::kWelcome;
  welcome.process = taken;
  welcome.id = generations_[taken];
  if (Send(taken, welcome)) events_.came(taken);
}

void Tenant::OnLink(Slot slot) {
  for (int i = 0; i < kMessagesAtOnce; ++i) {
    const auto found = processes_.find(slot);
    if (found == processes_.end()) return;
    share::Message message{};
    const ssize_t size = ::recv(found->second.link.get(), &message, sizeof message, MSG_DONTWAIT | MSG_TRUNC);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size != sizeof message) return Drop(slot);  // The end, an error, or what is no message.
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
  // Later and not here, where somebody goes through the processes.
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
  loop_.Forget(found->second.link.get());
  if (found->second.life.is_open()) loop_.Forget(found->second.life.get());
  processes_.erase(found);
  ClearSlot(slot);
  if (events_.gone) events_.gone(slot);
}

void Tenant::ClearSlot(Slot slot) {
  if (map_ == nullptr) return;
  share::Page& page = map_->page();
  share::UnlockPage(page, share::LockedBySlot(slot));  // Where it died with it.
  // Where others hold the lock it goes without: the sum only falls.
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
    // A pid that is another's by now holds its slot until that other ends or the tenant is removed; it lies in the
    // job's own share.
    const int fd = life.get();
    missing_[slot] = Missing{pid, std::move(life)};
    loop_.Watch(fd, [this, slot] {
      loop_.Forget(missing_.at(slot).life.get());
      missing_.erase(slot);
      ClearSlot(slot);
      if (events_.gone) events_.gone(slot);
    });
  }
}

}  // namespace divvy::keeper
