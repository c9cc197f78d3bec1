#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>

#include "contexts.h"
#include "gate.h"
#include "memory.h"
#include "orders.h"
#include "platform/os/old_glibc.h"
#include "streams.h"
#include "sync.h"
#include "tenant.h"

namespace divvy::interpose {

namespace {

constexpr std::uint64_t kKeeperTimeout = 10 * kSecond;  // Timeout without a keeper.
constexpr std::uint64_t kAnswerTimeout = 60 * kSecond;  // Timeout with a keeper, which may have to move other tenants.
constexpr int kRedialMs = 50;
constexpr int kLateRedialMs = 500;  // Interval when the keeper is gone for longer than any thread waits.
constexpr int kIdleMs = 100;

enum LinkState : std::uint32_t { kDown, kUp };
enum Start : std::uint32_t { kUnstarted, kStarted, kOff };
enum Answer : std::uint32_t { kNone, kYes, kNo, kLost };

/// A thread that waits for an answer; allocated on its stack.
struct Request {
  std::uint64_t id;
  std::uint32_t answer;  // Futex word.
  Request* next;
};

std::atomic<std::uint32_t> g_start{kUnstarted};
Mutex g_start_mutex;
// Held while sending and closing, so that no thread sends to a descriptor number that was reused.
Mutex g_socket_mutex;
int g_socket = -1;
ino_t g_socket_inode = 0;
std::atomic<std::uint64_t> g_link_number{0};
std::uint32_t g_state = kDown;  // Futex word.
std::atomic<std::uint64_t> g_down_since{0};
std::atomic<std::uint64_t> g_next_id{1};
Mutex g_requests_mutex;
Request* g_requests = nullptr;
bool g_is_refused = false;  // Used only by the link's thread: there was no free slot, and none is expected soon.
bool g_has_fork_handler = false;
bool g_has_thread = false;

std::uint32_t StateNow() { return __atomic_load_n(&g_state, __ATOMIC_ACQUIRE); }

void SetState(std::uint32_t state) {
  if (state == kDown && StateNow() != kDown) g_down_since.store(NowNs(), std::memory_order_relaxed);
  __atomic_store_n(&g_state, state, __ATOMIC_RELEASE);
  FutexWakeAll(&g_state);
}

void SetAnswer(Request& request, Answer answer) {
  __atomic_store_n(&request.answer, answer, __ATOMIC_RELEASE);
  FutexWakeAll(&request.answer);
}

/// `id` 0: all requests.
void Resolve(std::uint64_t id, Answer answer) {
  const Locked locked(g_requests_mutex);
  for (Request* request = g_requests; request != nullptr; request = request->next) {
    if (id == 0 || request->id == id) SetAnswer(*request, answer);
  }
}

/// Connects and says hello. Returns the descriptor, or -1. `is_missing`: the socket does not exist.
int Dial(bool& is_missing) {
  is_missing = false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Uses the folder's descriptor, so that the path always fits a socket address.
  const int folder = open(ShareFolder(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) {
    is_missing = true;
    return -1;
  }
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, share::kLinkSocket);
  const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  const bool is_connected = fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  is_missing = fd >= 0 && !is_connected && (errno == ENOENT || errno == EACCES || errno == ENOTSOCK);
  close(folder);
  if (!is_connected) {
    if (fd >= 0) close(fd);
    return -1;
  }
  share::Message hello = MessageOf(share::Word::kHello, 0);
  hello.process = SlotNow();
  hello.id = GenerationNow();
  if (send(fd, &hello, sizeof hello, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof hello)) {
    close(fd);
    return -1;
  }
  return fd;
}

/// The program may have closed this descriptor, as daemons close all, and reused its number.
bool IsStillOurs(int fd, ino_t inode) {
  struct stat about {};
  return fd >= 0 && old_glibc::Fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_ino == inode;
}

int SocketNow() {
  const Locked locked(g_socket_mutex);
  return IsStillOurs(g_socket, g_socket_inode) ? g_socket : -1;
}

void HangUp() {
  {
    const Locked locked(g_socket_mutex);
    if (IsStillOurs(g_socket, g_socket_inode)) close(g_socket);
    g_socket = -1;
  }
  SetState(kDown);
  Resolve(0, kLost);
}

void SayNoSlot(const char* why, std::int32_t refusal) {
  static std::atomic<bool> has_spoken{false};
  if (has_spoken.exchange(true)) return;
  const bool is_broken = refusal == share::kPageBroken;
  Say(why[0] != 0 ? why : "the keeper has no slot for this process",
      is_broken ? "it gets no GPU memory; start the job again"
                : "it gets no GPU memory until another process of the job ends; run fewer processes");
}

/// Returns false if the connection must be closed.
bool OnMessage(const share::Message& message) {
  switch (message.word) {
    case share::Word::kWelcome:
      if (message.process >= share::kMaxProcesses) return false;
      if (!AdoptSlot(message.process, message.id, message.bytes)) {
        SayNoSlot("the shared memory page of the job was replaced", share::kPageBroken);
        g_is_refused = true;
        return false;
      }
      SetState(kUp);
      AskAgain();
      return true;
    case share::Word::kGranted:
      Resolve(message.id, kYes);
      return true;
    case share::Word::kDenied:
      if (StateNow() == kDown) {  // Sent instead of kWelcome: there is no slot.
        SayNoSlot(message.text, message.result);
        g_is_refused = true;
        return false;
      }
      Resolve(message.id, kNo);
      return true;
    default:
      Hand(message);
      return true;
  }
}

/// Handles all available messages. Returns false if the connection has ended.
bool Receive(int fd) {
  for (;;) {
    share::Message message{};
    const ssize_t size = recv(fd, &message, sizeof message, MSG_DONTWAIT);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (size != static_cast<ssize_t>(sizeof message)) return false;
    message.text[sizeof message.text - 1] = 0;
    if (!OnMessage(message)) return false;
  }
}

void Redial(bool& was_ever_up) {
  bool is_missing = false;
  const int fd = Dial(is_missing);
  struct stat about {};
  if (fd >= 0 && old_glibc::Fstat(fd, &about) == 0) {
    const Locked locked(g_socket_mutex);
    g_socket = fd;
    g_socket_inode = about.st_ino;
    g_link_number.fetch_add(1);
    return;
  }
  // A keeper that existed will return. If there never was one, nothing is shared.
  if (is_missing && !was_ever_up) {
    StopSharing("no keeper answers at DIVVY_SHARE", "this program runs without sharing its GPU; start the job again");
    g_start.store(kOff, std::memory_order_release);
  }
}

void PauseFor(int milliseconds) {
  const timespec pause = {milliseconds / 1000, milliseconds % 1000 * 1'000'000L};
  nanosleep(&pause, nullptr);
}

void* Run(void*) {
  BeOwnThread();
  bool was_ever_up = false;
  while (g_start.load(std::memory_order_acquire) != kOff) {
    int fd = SocketNow();
    if (fd < 0) {
      if (StateNow() == kUp) HangUp();
      if (g_is_refused) PauseFor(kLateRedialMs);
      g_is_refused = false;
      Redial(was_ever_up);
      fd = SocketNow();
    }
    pollfd watched = {fd, POLLIN, 0};
    const int turn_ms = LookAfterTurns();
    const int redial_ms = LinkDownNs() > kKeeperTimeout ? kLateRedialMs : kRedialMs;
    const int wait_ms = fd < 0 ? redial_ms : turn_ms > 0 ? turn_ms : kIdleMs;
    const int ready = poll(&watched, fd < 0 ? 0 : 1, wait_ms);
    if (ready > 0 && SocketNow() == fd && !Receive(fd)) HangUp();
    was_ever_up = was_ever_up || StateNow() == kUp;
    StartWorkers();
  }
  SetState(kDown);
  return nullptr;
}

void InChild() {
  g_socket_mutex.Renew();
  if (IsStillOurs(g_socket, g_socket_inode)) close(g_socket);
  g_socket = -1;
  g_start_mutex.Renew();
  g_has_thread = false;
  g_is_refused = false;
  g_requests_mutex.Renew();
  g_requests = nullptr;
  g_state = kDown;
  ForgetQueuedTasks();
  ForgetTenancy();
  ForgetGates();
  ForgetContexts();
  ForgetMemory();
  ForgetMappings();
  ForgetGraphs();
  ForgetStreams();
  g_start.store(kUnstarted, std::memory_order_release);
}

bool IsOff() { return g_start.load(std::memory_order_acquire) == kOff; }

/// Starts the link's thread, and gets a slot if a keeper provides one. Requires the start mutex. Returns false if
/// sharing is off.
bool Join() {
  if (IsOff()) return false;
  if (SharedPage() == nullptr) {
    g_start.store(kOff, std::memory_order_release);
    return false;
  }
  if (!g_has_fork_handler) {
    pthread_atfork(nullptr, nullptr, &InChild);
    g_has_fork_handler = true;
  }
  if (g_has_thread) return true;
  g_has_thread = true;
  g_down_since.store(NowNs(), std::memory_order_relaxed);
  if (!StartOwnThread(&Run, nullptr)) {
    StopSharing("cannot create a thread", "raise the job's process limit (ulimit -u)");
    g_start.store(kOff, std::memory_order_release);
    return false;
  }
  const std::uint64_t started = NowNs();
  while (StateNow() == kDown && !IsOff() && NowNs() - started < kKeeperTimeout) {
    FutexWait(&g_state, kDown, 100 * kMillisecond);
  }
  return !IsOff();
}

void Begin() {
  const Locked locked(g_start_mutex);
  if (g_start.load(std::memory_order_acquire) != kUnstarted) return;
  if (SharedPage() == nullptr) {
    g_start.store(kOff, std::memory_order_release);
    return;
  }
  const Nested nested;         // Calls between the driver's own exported functions are not gated again.
  if (!FindDevices()) return;  // Before cuInit, or in a forked child: the driver reports that itself.
  if (!Join()) return;
  std::uint32_t expected = kUnstarted;
  g_start.compare_exchange_strong(expected, kStarted);
}

/// Waits for a keeper; returns false after the timeout.
bool AwaitLink(std::uint64_t started_ns) {
  while (StateNow() == kDown) {
    const std::uint64_t down = LinkDownNs();
    const std::uint64_t waited = NowNs() - started_ns;
    if (down >= kKeeperTimeout && waited >= kSecond) return false;
    if (waited >= kAnswerTimeout || g_start.load(std::memory_order_acquire) == kOff) return false;
    FutexWait(&g_state, kDown, 100 * kMillisecond);
  }
  return true;
}

/// Sends `question` with a new id and waits for its answer. Returns kLost if there is no keeper or the connection
/// breaks.
std::uint32_t AskOnce(share::Message question, std::uint64_t started_ns) {
  Request request = {g_next_id.fetch_add(1), kNone, nullptr};
  {
    const Locked locked(g_requests_mutex);
    request.next = g_requests;
    g_requests = &request;
  }
  question.id = request.id;
  question.process = SlotNow();
  const bool is_sent = Send(question);
  while (is_sent && __atomic_load_n(&request.answer, __ATOMIC_ACQUIRE) == kNone &&
         NowNs() - started_ns < kAnswerTimeout) {
    FutexWait(&request.answer, kNone, kSecond);
  }
  const Locked locked(g_requests_mutex);
  for (Request** at = &g_requests; *at != nullptr; at = &(*at)->next) {
    if (*at != &request) continue;
    *at = request.next;
    break;
  }
  return is_sent ? request.answer : static_cast<std::uint32_t>(kLost);
}

}  // namespace

void JoinTenant() {
  if (SharedPage() == nullptr) return;
  const Locked locked(g_start_mutex);
  Join();
}

bool IsShared() {
  const std::uint32_t start = g_start.load(std::memory_order_acquire);
  if (start == kStarted) return true;
  if (start == kOff) return false;
  Begin();
  return g_start.load(std::memory_order_acquire) == kStarted;
}

share::Message MessageOf(share::Word word, unsigned device) {
  share::Message message{};
  message.word = word;
  message.device = device;
  message.process = SlotNow();
  return message;
}

std::uint64_t LinkNumber() { return g_link_number.load(); }

bool Send(const share::Message& message) { return SendOn(LinkNumber(), message); }

bool SendOn(std::uint64_t link, const share::Message& message) {
  const Locked locked(g_socket_mutex);
  if (link != LinkNumber() || !IsStillOurs(g_socket, g_socket_inode)) return false;
  return send(g_socket, &message, sizeof message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(sizeof message);
}

void Tell(share::Word word, unsigned device) { Send(MessageOf(word, device)); }

std::uint64_t LinkDownNs() {
  return StateNow() == kUp ? 0 : NowNs() - g_down_since.load(std::memory_order_relaxed) + 1;
}

bool AskForMore(unsigned device, std::uint64_t bytes, std::uint64_t started_ns) {
  share::Message want = MessageOf(share::Word::kWant, device);
  want.bytes = bytes;
  std::uint32_t answer = kLost;
  while (answer == kLost && NowNs() - started_ns < kAnswerTimeout) {
    if (!AwaitLink(started_ns)) {
      static std::atomic<bool> has_spoken{false};
      if (!has_spoken.exchange(true)) {
        Say("the keeper of this node does not answer",
            "it gets no more GPU memory until the keeper does; `divvy status` shows the node's state");
      }
      return false;
    }
    answer = AskOnce(want, started_ns);
  }
  return answer == kYes;
}

void BeforePinning(std::uint32_t flags) {
  constexpr std::uint32_t kPins =
      share::kManaged | share::kIpc | share::kPeers | share::kExternal | share::kCollectives | share::kGraphicsShared;
  if ((flags & kPins) == 0 || IsNested() || !IsShared() || (FlagsNow() & kPins) != 0) return;
  if (LinkDownNs() != 0) return;  // Without a keeper, nothing moves it.
  share::Message pin = MessageOf(share::Word::kPin, 0);
  pin.bytes = flags & kPins;
  AskOnce(pin, NowNs());
}

}  // namespace divvy::interpose
