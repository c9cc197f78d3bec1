#include "platform/users/passed_stream.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>

#include "platform/os/unix_socket.h"
#include "platform/users/open_as_user.h"

namespace divvy {
namespace {

// Accepts null, zero, full, random and urandom: minors of the memory devices, whose major is 1.
bool IsHarmlessDevice(dev_t device) {
  const unsigned number = minor(device);
  return major(device) == 1 && (number == 3 || number == 5 || (number >= 7 && number <= 9));
}

int SocketOption(int fd, int option) {
  int value = -1;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

// Returns what is wrong with the descriptor, or "" if it is acceptable.
std::string FaultOf(int fd, StreamUse use, std::int64_t caller_uid) {
  const int flags = ::fcntl(fd, F_GETFL);
  struct stat about = {};
  if (flags < 0 || (flags & O_PATH) != 0 || ::fstat(fd, &about) != 0) return "is not open";
  const int refused_mode = use == StreamUse::kRead ? O_WRONLY : O_RDONLY;
  if (use != StreamUse::kHandedOn && (flags & O_ACCMODE) == refused_mode) {
    return use == StreamUse::kRead ? "is not open for reading" : "is not open for writing";
  }
  switch (about.st_mode & S_IFMT) {
    case S_IFIFO:
      return "";
    case S_IFREG:
      return IsKernelFile(fd) ? "is a kernel file" : "";
    case S_IFCHR:
      return IsHarmlessDevice(about.st_rdev) || ::isatty(fd) == 1 ? "" : "is a device";
    case S_IFSOCK:
      break;
    default:
      return "is not a stream";
  }
  const int domain = SocketOption(fd, SO_DOMAIN);
  if (SocketOption(fd, SO_TYPE) != SOCK_STREAM) return "is a datagram socket";
  if (domain == AF_INET || domain == AF_INET6) return "";
  if (domain != AF_UNIX) return "is a socket of an unsupported type";
  const bool is_callers = caller_uid == 0 || CredentialsOf(fd).uid == caller_uid;
  return use == StreamUse::kHandedOn || is_callers ? "" : "is a socket whose peer belongs to another user";
}

}  // namespace

Status CheckPassedStream(int fd, StreamUse use, std::int64_t caller_uid, const char* name) {
  const std::string fault = FaultOf(fd, use, caller_uid);
  if (fault.empty()) return {};
  return InvalidArgument("the caller's " + std::string(name) + " " + fault +
                         ": expected a terminal, pipe, regular file or stream socket; use a pipe (| cat)");
}

}  // namespace divvy
