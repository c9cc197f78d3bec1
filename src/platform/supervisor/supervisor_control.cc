#include "platform/supervisor/supervisor_control.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <span>

#include "platform/net/tls.h"

namespace divvy {
namespace {

// Larger than any datagram here: the longest has a failure with two paths in it.
constexpr std::size_t kDatagramSize = 16384;
constexpr std::size_t kMaxDescriptors = 4;

struct Address {
  sockaddr_un name = {};
  socklen_t size = 0;
};

// "@name" is an abstract address, anything else a path.
std::optional<Address> MakeAddress(std::string_view text) {
  Address address;
  address.name.sun_family = AF_UNIX;
  if (text.empty() || text.size() >= sizeof address.name.sun_path) return std::nullopt;
  std::memcpy(address.name.sun_path, text.data(), text.size());
  const bool is_abstract = text.front() == '@';
  if (is_abstract) address.name.sun_path[0] = '\0';
  address.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + (is_abstract ? 0 : 1));
  return address;
}

struct Datagram {
  std::string text;
  std::vector<ForeignDescriptor> descriptors;
  uid_t sender = static_cast<uid_t>(-1);
};

// Receives the next datagram from any sender.
std::optional<Datagram> Receive(int socket) {
  char text[kDatagramSize];
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(ucred)) + CMSG_SPACE(kMaxDescriptors * sizeof(int))];
  iovec part = {.iov_base = text, .iov_len = sizeof text};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  const ssize_t size = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return std::nullopt;
  Datagram datagram;
  datagram.text.assign(text, static_cast<std::size_t>(size));
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET) continue;
    if (header->cmsg_type == SCM_CREDENTIALS) {
      ucred credentials = {};
      std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
      datagram.sender = credentials.uid;
    } else if (header->cmsg_type == SCM_RIGHTS) {
      for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
        int fd = -1;
        std::memcpy(&fd, reinterpret_cast<const char*>(header) + at, sizeof fd);
        datagram.descriptors.emplace_back(fd);
      }
    }
  }
  return datagram;
}

ssize_t SendTo(int socket, const Address& address, std::string_view text, std::span<const int> fds, int flags) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxDescriptors * sizeof(int))] = {};
  iovec part = {.iov_base = const_cast<char*>(text.data()), .iov_len = text.size()};
  Address to = address;
  msghdr message = {};
  message.msg_name = &to.name;
  message.msg_namelen = to.size;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  return ::sendmsg(socket, &message, flags | MSG_NOSIGNAL);
}

/// Returns the first line of a command: the secret, where the filter of the supervisor's socket expects it.
std::string SecretLine(std::string_view secret) { return "secret=" + std::string(secret) + "\n"; }

CommandRelay& RootRelay() {
  static CommandRelay relay;
  return relay;
}

// An address is valid only while the supervisor lives, and may be reused afterwards. So every command names its job and
// attempt.
Status SendCommand(const RunRecord& record, std::string_view command, RecordWriter fields = {},
                   std::span<const int> fds = {}) {
  fields.Add("command", command);
  fields.Add("job", ToString(record.job));
  fields.Add("attempt", record.attempt);
  const std::string text = SecretLine(record.secret) + fields.text();
  if (RootRelay() && record.commander < 0 && !record.control.empty()) return RootRelay()(record, text, fds);
  return SendCommandText(record, text, fds);
}

}  // namespace

void RelayRootCommands(CommandRelay send) { RootRelay() = std::move(send); }

Status SendCommandText(const RunRecord& record, std::string_view text, std::span<const int> fds) {
  const std::string job = ToString(record.job);
  const auto address = MakeAddress(record.control);
  if (!address)
    return Unreachable("the run record of job " + job + " has no valid address of its supervisor's command socket");
  const Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return Internal(std::string("cannot open a socket: ") + std::strerror(errno));
  if (SendTo(socket.get(), *address, text, fds, MSG_DONTWAIT) >= 0) return {};
  if (errno == EAGAIN)
    return LimitExceeded("the supervisor of job " + job + " has too many commands to read; try again");
  if (errno == ECONNREFUSED || errno == ENOENT) return Unreachable("the supervisor of job " + job + " is gone");
  return Internal("cannot reach the supervisor of job " + job + ": " + std::strerror(errno));
}

namespace {

void AddWindow(WindowSize window, RecordWriter& fields) {
  fields.Add("rows", window.rows);
  fields.Add("columns", window.columns);
}

Status EnableCredentials(int socket) {
  const int on = 1;
  if (::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0) return {};
  return Internal(std::string("cannot read the sender: ") + std::strerror(errno));
}

}  // namespace

Result<int> BindReportSocket(const std::string& run_directory) {
  const auto failed = [&](std::string_view what) {
    return Internal("cannot " + std::string(what) + " '" + run_directory + "/reports': " + std::strerror(errno));
  };
  // A socket's path has at most 107 characters and the directory's may be longer, so it is bound through a descriptor
  // of the directory.
  const Descriptor directory(::open(run_directory.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.is_open()) return failed("open the folder of");
  const auto address = MakeAddress("/proc/self/fd/" + std::to_string(directory.get()) + "/reports");
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.is_open()) return failed("open a socket for");
  DIVVY_CHECK(EnableCredentials(socket.get()));
  ::unlinkat(directory.get(), "reports", 0);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address->name), address->size) != 0) {
    return failed("listen at");
  }
  if (::fchmodat(directory.get(), "reports", 0600, 0) != 0) return failed("protect");
  return socket.Release();
}

std::optional<SupervisorReport> ReceiveReport(int report_socket) {
  while (auto datagram = Receive(report_socket)) {
    if (datagram->sender != 0 && datagram->sender != ::geteuid()) continue;
    const RecordFields fields(datagram->text);
    const std::string_view kind = fields.Text("report");
    SupervisorReport report;
    if (kind == "prepared") report.kind = SupervisorReport::Kind::kPrepared;
    else if (kind == "delayed") report.kind = SupervisorReport::Kind::kDelayed;
    else if (kind == "started") report.kind = SupervisorReport::Kind::kStarted;
    else if (kind == "exited") report.kind = SupervisorReport::Kind::kExited;
    else if (kind == "detached") report.kind = SupervisorReport::Kind::kDetached;
    else continue;
    report.record = ReadRecordFields(fields);
    report.record.is_supervisor_alive = true;
    report.attachment = static_cast<std::uint64_t>(fields.Number("attachment"));
    return report;
  }
  return std::nullopt;
}

Status SendStop(const RunRecord& record, int signal, Duration grace) {
  RecordWriter fields;
  fields.Add("signal", signal);
  fields.Add("grace", grace.count());
  return SendCommand(record, "stop", fields);
}

Status SendSignal(const RunRecord& record, int signal, SignalReach reach) {
  RecordWriter fields;
  fields.Add("signal", signal);
  fields.Add("first_process", reach == SignalReach::kFirstProcess ? 1 : 0);
  fields.Add("others", reach == SignalReach::kOthers ? 1 : 0);
  return SendCommand(record, "signal", fields);
}

Status SendPause(const RunRecord& record) { return SendCommand(record, "pause"); }
Status SendContinue(const RunRecord& record) { return SendCommand(record, "continue"); }
Status SendGo(const RunRecord& record) { return SendCommand(record, "go"); }
Status SendPing(const RunRecord& record) { return SendCommand(record, "ping"); }

Status SendStepCall(const RunRecord& record, int socket, bool stops_only) {
  RecordWriter fields;
  fields.Add("stops_only", stops_only ? 1 : 0);
  const std::array<int, 1> fds = {socket};
  return SendCommand(record, "step-call", fields, fds);
}

Status SendTimeLimit(const RunRecord& record, Duration limit) {
  RecordWriter fields;
  fields.Add("limit", limit.count());
  return SendCommand(record, "time-limit", fields);
}

Status SendAttach(const RunRecord& record, std::uint64_t attachment, int in, int out, WindowSize window) {
  RecordWriter fields;
  fields.Add("attachment", static_cast<std::int64_t>(attachment));
  AddWindow(window, fields);
  const std::array<int, 2> fds = {in, out};
  return SendCommand(record, "attach", fields, fds);
}

Status SendResize(const RunRecord& record, WindowSize window) {
  RecordWriter fields;
  AddWindow(window, fields);
  return SendCommand(record, "resize", fields);
}

std::string DrawControlSecret() {
  // Uses the system call, because the library's generator would be initialised only for this.
  std::array<unsigned char, 32> bytes = {};
  while (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
  }
  std::string secret;
  for (const unsigned char byte : bytes) {
    for (const int digit : {byte >> 4, byte & 15}) secret.push_back("0123456789abcdef"[digit]);
  }
  return secret;
}

bool IsCommandFor(const RecordFields& command, const RunRecord& record) {
  return command.Number("job") == static_cast<std::int64_t>(record.job.value()) &&
         command.Number("attempt") == record.attempt && !record.secret.empty() &&
         IsSameSecret(command.Text("secret"), record.secret);
}

Result<std::pair<Descriptor, std::string>> OpenControlSocket() {
  const auto failed = [] { return Internal(std::string("cannot open a control socket: ") + std::strerror(errno)); };
  Descriptor socket(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket.is_open()) return failed();
  DIVVY_CHECK(EnableCredentials(socket.get()));
  // A bind without a name makes the kernel choose one: a zero byte and five hexadecimal digits.
  sockaddr_un name = {};
  name.sun_family = AF_UNIX;
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&name), sizeof(sa_family_t)) != 0) return failed();
  socklen_t size = sizeof name;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return failed();
  std::string address(name.sun_path, size - offsetof(sockaddr_un, sun_path));
  address.front() = '@';
  DIVVY_CHECK(AdmitCommands(socket.get(), ""));
  return std::pair(std::move(socket), std::move(address));
}

Status AdmitCommands(int control_socket, const std::string& secret) {
  const std::string first = SecretLine(secret);
  std::vector<sock_filter> program;
  if (!secret.empty()) {
    // Collects the differences of all words, so that the time does not depend on how much of the secret is correct.
    program = {BPF_STMT(BPF_LD | BPF_IMM, 0), BPF_STMT(BPF_ST, 0)};
    for (std::size_t at = 0; at + 4 <= first.size(); at += 4) {
      std::uint32_t word = 0;
      for (const char byte : std::string_view(first).substr(at, 4)) word = word << 8 | static_cast<unsigned char>(byte);
      program.insert(program.end(), {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, static_cast<std::uint32_t>(at)),
                                     BPF_STMT(BPF_ALU | BPF_XOR | BPF_K, word), BPF_STMT(BPF_LDX | BPF_MEM, 0),
                                     BPF_STMT(BPF_ALU | BPF_OR | BPF_X, 0), BPF_STMT(BPF_ST, 0)});
    }
    program.insert(program.end(), {BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1), BPF_STMT(BPF_RET | BPF_K, ~0U)});
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  const sock_fprog filter = {.len = static_cast<unsigned short>(program.size()), .filter = program.data()};
  if (::setsockopt(control_socket, SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof filter) == 0) return {};
  return Internal(std::string("cannot set the filter of a control socket: ") + std::strerror(errno));
}

std::optional<SupervisorCommand> ReceiveCommand(int control_socket, uid_t uid) {
  auto datagram = Receive(control_socket);
  if (!datagram || (datagram->sender != 0 && datagram->sender != uid)) return std::nullopt;
  return SupervisorCommand{.text = std::move(datagram->text), .descriptors = std::move(datagram->descriptors)};
}

bool SendReport(int control_socket, const std::string& address, std::string_view text, WhenFull when_full) {
  const auto to = MakeAddress(address);
  if (!to) return true;
  while (SendTo(control_socket, *to, text, {}, when_full == WhenFull::kReturn ? MSG_DONTWAIT : 0) < 0) {
    if (errno == EAGAIN && when_full == WhenFull::kReturn) return false;
    if (errno != EINTR && errno != EAGAIN && errno != ENOBUFS) return true;
  }
  return true;
}

void SupervisorReports::ReportState() {
  Report(!record_.delay.empty() ? "delayed" : record_.awaits_go() ? "prepared" : "started");
}

void SupervisorReports::Report(std::string_view kind, std::uint64_t attachment) {
  RecordWriter report;
  report.Add("report", kind);
  if (attachment != 0) report.Add("attachment", static_cast<std::int64_t>(attachment));
  if (!record_.delay.empty()) report.Add("delay", record_.delay);
  AddWatch(record_, report);
  AddProcess(record_, report);
  if (record_.exit) AddExit(record_, report);
  unsent_.push_back(report.text());
  Flush(WhenFull::kReturn);
}

void SupervisorReports::Flush(WhenFull when_full) {
  // Relative to the run directory, which is the supervisor's working directory.
  static const std::string kReports = "reports";
  std::size_t sent = 0;
  while (sent < unsent_.size() && SendReport(control_.get(), kReports, unsent_[sent], when_full)) ++sent;
  unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<std::ptrdiff_t>(sent));
}

}  // namespace divvy
