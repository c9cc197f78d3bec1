#include "keeper/tenants/peer.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "platform/gpu/gpu_process.h"
#include "platform/os/unix_socket.h"

namespace divvy::keeper {
namespace {

#ifdef SO_PEERPIDFD
constexpr int kPeerPidfd = SO_PEERPIDFD;
#else
constexpr int kPeerPidfd = 77;  // The kernel's generic number, used by x86-64 and arm64.
#endif

}  // namespace

Peer PeerOf(int link) {
  const PeerCredentials credentials = CredentialsOf(link);
  Peer peer;
  peer.uid = credentials.uid;
  peer.pid = credentials.pid;
  int life = -1;
  socklen_t size = sizeof life;
  if (::getsockopt(link, SOL_SOCKET, kPeerPidfd, &life, &size) == 0) {
    peer.life.Reset(life);
    return peer;
  }
  if (errno != ENOPROTOOPT) return peer;  // The process has ended, so its pid may have been reused.
  peer.life.Reset(static_cast<int>(::syscall(SYS_pidfd_open, static_cast<pid_t>(peer.pid), 0)));
  if (peer.life.is_open() && UidOfProcess(peer.pid) != peer.uid) peer.life.Reset();
  return peer;
}

bool HasEnded(int life) {
  pollfd watched{life, POLLIN, 0};
  return ::poll(&watched, 1, 0) != 0;
}

}  // namespace divvy::keeper
