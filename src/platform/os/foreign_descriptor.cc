#include "platform/os/foreign_descriptor.h"

#include <linux/sched.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "platform/os/unix_socket.h"

namespace divvy {
namespace {

constexpr std::size_t kMostInMessage = 253;  // The kernel's SCM_MAX_FD.
// Messages to the closer: a helper process that closes descriptors whose close(2) may block.
constexpr char kTake = 'T';   // A descriptor comes with this byte.
constexpr char kLetGo = 'L';  // The sender has closed its own copy of the last one.

/// Kernel file systems that wait only for local disks: ext, xfs, btrfs, tmpfs, f2fs, zfs (statfs(2)).
constexpr std::array<long, 6> kLocal = {0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0xF2F52010, 0x2FC12FC1};

bool ClosesAtOnce(int fd) {
  struct stat about = {};
  if (::fstat(fd, &about) != 0 || S_ISFIFO(about.st_mode)) return true;
  if (S_ISCHR(about.st_mode)) {
    const unsigned kind = major(about.st_rdev);
    return kind == 1 || kind == 5 || (kind >= 136 && kind <= 143);  // /dev/null, /dev/tty, pseudo-terminals.
  }
  struct statfs lies_on = {};
  return (S_ISREG(about.st_mode) || S_ISDIR(about.st_mode)) && ::fstatfs(fd, &lies_on) == 0 &&
         std::find(kLocal.begin(), kLocal.end(), lies_on.f_type) != kLocal.end();
}

/// Forks a process that becomes a child of our parent, so that a job's supervisor, which waits for all its children,
/// does not wait for it. Returns 0 in the child, which may call only what signal-safety(7) allows; -1 if no process can
/// be created.
pid_t ForkAside() {
  const long pid = ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr);
  // The first process of a PID namespace may not use CLONE_PARENT.
  return static_cast<pid_t>(
      pid < 0 && errno == EINVAL ? ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) : pid);
}

/// Receives the descriptors that were sent and holds them until the sender has closed its own copies. Then closes
/// `told`, which tells the parent that it is done.
[[noreturn]] void TakeAndEnd(int link, int told) {
  char byte = 0;
  bool is_last_copy = true;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostInMessage * sizeof(int))> control;
  iovec part = {&byte, 1};
  for (;;) {
    msghdr message = {};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    // If this process has no room for another descriptor, this call closes it, which may block. That does no harm,
    // because only the parent waits for this process.
    const ssize_t got = ::recvmsg(link, &message, (is_last_copy ? MSG_DONTWAIT : 0) | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    is_last_copy = byte == kLetGo;
  }
  ::close(told);
  ::_exit(0);  // The sockets of a process that ends do not linger.
}

[[noreturn]] void RunCloser(int link) {
  ::prctl(PR_SET_NAME, "divvy-closer");
  ::dup2(link, 3);
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  static_cast<void>(!::send(3, "", 1, MSG_NOSIGNAL));  // None of our parent's descriptors is open here any more.
  struct sigaction ignore = {};
  ignore.sa_handler = SIG_IGN;  // The kernel reaps our children.
  ::sigaction(SIGCHLD, &ignore, nullptr);
  for (;;) {
    pollfd polled = {3, POLLIN, 0};
    if (::poll(&polled, 1, -1) < 0) continue;
    if ((polled.revents & POLLIN) == 0) ::_exit(0);
    char byte = 0;
    if (::recv(3, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0) ::_exit(0);  // The owner process has exited.
    int told[2] = {-1, -1};
    const bool has_pipe = ::pipe(told) == 0;
    const long child = has_pipe ? ::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr) : -1;
    if (child == 0) TakeAndEnd(3, told[1]);
    if (has_pipe) ::close(told[1]);
    if (child > 0) {
      while (::read(told[0], &byte, 1) < 0 && errno == EINTR) {
      }
    } else {
      ::poll(nullptr, 0, 100);  // No process could be created: retry until one can.
    }
    if (has_pipe) ::close(told[0]);
  }
}

/// This process's side of the closer. A descriptor that the closer cannot take yet stays open until the next one is
/// closed.
class Closer {
 public:
  void Take(int fd) {
    const std::lock_guard<std::mutex> lock(mutex_);
    // After a fork, `link_` may be the number of an unrelated descriptor.
    if (std::exchange(process_, ::getpid()) != ::getpid()) {
      link_ = -1;
      owes_let_go_ = false;
    }
    kept_.push_back(fd);
    for (int attempt = 0; attempt < 2; ++attempt) {
      if (link_ < 0) Start();
      while (SayLetGo() && !kept_.empty() && Send()) {
      }
      if (link_ < 0 || (kept_.empty() && !owes_let_go_) || errno == EAGAIN) return;
      ::close(std::exchange(link_, -1));  // The closer was killed.
      owes_let_go_ = false;
    }
  }

 private:
  void Start() {
    int ends[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
    const pid_t pid = ForkAside();
    if (pid == 0) RunCloser(ends[1]);
    ::close(ends[1]);
    if (pid > 0) link_ = ends[0];
    else ::close(ends[0]);
    // Until this answer the closer holds copies of all pipes of its parent, and readers of a pipe wait until its last
    // copy is closed.
    char byte = 0;
    while (pid > 0 && ::recv(link_, &byte, 1, 0) < 0 && errno == EINTR) {
    }
  }

  bool SayLetGo() {
    if (owes_let_go_ && ::send(link_, &kLetGo, 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) owes_let_go_ = false;
    return !owes_let_go_;
  }

  bool Send() {
    const int fd = kept_.back();
    if (link_ < 0 || SendWithDescriptors(link_, {&kTake, 1}, {&fd, 1}, MSG_DONTWAIT) != 1) return false;
    kept_.pop_back();
    ::close(fd);  // Not the last copy: the closer holds its copy until kLetGo arrives.
    owes_let_go_ = true;
    return true;
  }

  std::mutex mutex_;
  pid_t process_ = -1;  // The process that the state below belongs to.
  int link_ = -1;
  bool owes_let_go_ = false;
  std::vector<int> kept_;
};

}  // namespace

void CloseForeign(int fd) {
  static Closer closer;
  if (fd < 0) return;
  if (ClosesAtOnce(fd)) ::close(fd);
  else closer.Take(fd);
}

void CloseAccepted(int fd) {
  // After the shutdown no more data arrives. In a stream, descriptors come with at least one byte.
  char byte = 0;
  int type = 0;
  socklen_t size = sizeof type;
  ::shutdown(fd, SHUT_RD);
  const bool is_stream = ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_STREAM;
  if (is_stream && ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0) ::close(fd);
  else CloseForeign(fd);
}

ForeignMessage ReceiveForeign(int fd, void* into, std::size_t size, int flags) {
  iovec part = {into, size};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostInMessage * sizeof(int))> control;
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ForeignMessage got;
  got.size = ::recvmsg(fd, &message, flags | MSG_CMSG_CLOEXEC);
  if (got.size < 0) {
    if (errno == ENOTSOCK) got.size = ::read(fd, into, size);
    return got;
  }
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= head->cmsg_len; at += sizeof(int)) {
      int passed = -1;
      std::memcpy(&passed, reinterpret_cast<const char*>(head) + at, sizeof passed);
      got.descriptors.emplace_back(passed);
    }
  }
  return got;
}

std::vector<Descriptor> ReceiveDescriptors(int socket, std::size_t most) {
  char byte = 0;
  ForeignMessage got = ReceiveForeign(socket, &byte, 1, MSG_DONTWAIT);
  if (got.descriptors.size() > most) got.descriptors.resize(most);
  std::vector<Descriptor> out;
  for (ForeignDescriptor& one : got.descriptors) out.emplace_back(one.Release());
  return out;
}

}  // namespace divvy
