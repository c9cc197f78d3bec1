#include "platform/supervisor/root_errand.h"

#include <fcntl.h>
#include <glob.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/text.h"
#include "platform/isolation/job_cgroup.h"
#include "platform/os/proc_text.h"
#include "platform/os/process_tree.h"
#include "platform/os/unix_socket.h"
#include "platform/records/gang_files.h"
#include "platform/records/step_list_file.h"
#include "platform/supervisor/supervisor_adoption.h"
#include "platform/supervisor/supervisor_control.h"
#include "platform/users/open_as_user.h"
#include "platform/users/user_identity.h"
#include "platform/users/user_limits.h"

namespace divvy {

enum class ErrandKind : std::uint32_t {
  kIsolation = 1,
  kRight,
  kOpenLog,  // Of earlier releases.
  kWriteGpus,
  kStageGang,
  kSignalOrphans,
  kStart,
  kStartKeeper,
  kReadIo,
  kExitOf,
  kRefusedDevices,
  kCommand,
  kRightByName,
  kReadLog,
};

/// The header of a message; the text follows. The message's first descriptor is the socket for the answer.
struct ErrandHeader {
  std::uint32_t form = 0xD1FE0001;  // Changes with the layout of a message.
  ErrandKind kind = ErrandKind::kIsolation;
  std::int64_t uid = -1;
  std::int64_t gid = -1;
  UserRight right = {};
  std::uint64_t job = 0;
  std::uint64_t gpus = 0;
  std::int32_t signal = 0;
  std::uint32_t choice = 0;  // An OrphanReach, a UserProgram, or yes (1) and no (0).
  std::uint32_t text_size = 0;
  std::uint32_t reserved = 0;
};
static_assert(sizeof(ErrandHeader) == 120);

namespace {

constexpr std::size_t kMostErrandText = std::size_t{128} << 10;
constexpr std::size_t kMostPids = 1000;
constexpr int kAnswerWithinMs = 60'000;
// After this time the daemon no longer waits, so a child that hangs at a user's file system is ended.
constexpr unsigned kErrandSeconds = 60;
// A program ends itself at its time limit and reports that. If it does not, it is killed this much later.
constexpr int kProgramGraceSeconds = 5;
constexpr std::int64_t kLongestProgramSeconds = 3600;
constexpr std::chrono::seconds kEndTimeout{30};

/// The text of kReadLog begins with this; the path follows. In the answer, its memory file holds the text.
struct ReadOrder {
  std::int64_t at = -1;
  std::int64_t last = -1;
  std::uint64_t most = 0;
  std::uint64_t newest = 0;  // Yes (1) or no (0).
};
/// The text of the answer to kReadLog.
struct ReadAnswer {
  std::int64_t next = 0;
  std::int64_t size = 0;
  std::uint64_t text_size = 0;
};

struct AnswerHeader {
  std::int32_t error = 0;     // errno of the requested operation.
  std::uint32_t refusal = 0;  // 1: it was refused, and the text says why.
  std::int64_t value = 0;
  UserRight right = {};
  std::uint32_t text_size = 0;
  std::uint32_t reserved = 0;
};

/// Never blocks: a message fits into a socket's buffer, and an answer is the first message on its socket.
bool SendMessage(int socket, const void* header, std::size_t size, std::string_view text, std::span<const int> fds) {
  std::string bytes(static_cast<const char*>(header), size);
  bytes.append(text);
  ssize_t sent = -1;
  do sent = SendWithDescriptors(socket, bytes, fds, MSG_DONTWAIT);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(bytes.size());
}

struct Received {
  std::string bytes;
  std::vector<Descriptor> fds;
};

/// Returns nullopt if the peer closed the connection or the message was too large.
std::optional<Received> ReceiveMessage(int socket) {
  Received received;
  received.bytes.resize(sizeof(ErrandHeader) + sizeof(AnswerHeader) + kMostErrandText);
  constexpr std::size_t kMostFds = 3;
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMostFds * sizeof(int))> control;
  iovec part = {.iov_base = received.bytes.data(), .iov_len = received.bytes.size()};
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t size = -1;
  do size = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (size < 0 && errno == EINTR);
  for (cmsghdr* header = size < 0 ? nullptr : CMSG_FIRSTHDR(&message); header != nullptr;
       header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= header->cmsg_len; at += sizeof(int)) {
      int fd = -1;
      std::memcpy(&fd, reinterpret_cast<const char*>(header) + at, sizeof fd);
      received.fds.emplace_back(fd);
    }
  }
  if (size <= 0 || (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0) return std::nullopt;
  received.bytes.resize(static_cast<std::size_t>(size));
  return received;
}

std::pair<Descriptor, Descriptor> MakeAnswerPair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return {};
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// True if `fd` is one end of a socket pair. Writing to any other socket would let the daemon use root's credentials at
/// its other end.
bool IsAnswerSocket(int fd) {
  int type = 0;
  socklen_t size = sizeof type;
  sockaddr_un peer = {};
  socklen_t peer_size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 && type == SOCK_SEQPACKET &&
         ::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) == 0 && peer.sun_family == AF_UNIX &&
         peer_size <= sizeof(sa_family_t);
}

std::vector<std::string> FilesLike(const std::vector<std::string>& patterns) {
  std::vector<std::string> files;
  for (const std::string& pattern : patterns) {
    glob_t found = {};
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0)
      files.insert(files.end(), found.gl_pathv, found.gl_pathv + found.gl_pathc);
    ::globfree(&found);
  }
  return files;
}

/// Makes a v2 cgroup in which this process starts a program, with these devices denied. Does not deny devices if that
/// is impossible here; returns an empty one without v2.
JobCgroup MakeProgramCgroup(const std::string& run_directory, const std::vector<std::string>& closed_devices) {
  const CgroupRoots roots = CgroupRoots::Find();
  const ProcessIdentity self = IdentifyProcess(::getpid());
  const std::string name = "program-" + std::to_string(self.pid) + "-" + std::to_string(self.start_ticks);
  CgroupLimits limits = {.closed_devices = FilesLike(closed_devices), .is_killable = true};
  auto made = JobCgroup::Create(roots, run_directory, name, limits);
  limits.uses_device_controller = true;
  if (!made) made = JobCgroup::Create(roots, run_directory, name, limits);
  limits.closed_devices.clear();
  if (!made) made = JobCgroup::Create(roots, run_directory, name, limits);
  return made ? *std::move(made) : JobCgroup();
}

Result<Descriptor> ConnectErrands(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return InvalidArgument("'" + path + "' is too long for a socket");
  std::ranges::copy(path, address.sun_path);
  Descriptor link(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!link.is_open() || ::connect(link.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return Unreachable("no launcher serves at '" + path + "' (" + std::strerror(errno) +
                       "); start it with systemctl start divvy-launcher, or with divvy up or divvy agent as root");
  }
  return link;
}

bool IsReadable(int socket, int within_ms) {
  pollfd polled = {.fd = socket, .events = POLLIN, .revents = 0};
  int ready = -1;
  do ready = ::poll(&polled, 1, within_ms);
  while (ready < 0 && errno == EINTR);
  return ready != 0;
}

}  // namespace

// ---- The daemon's side ----------------------------------------------------------------------------------------------

struct RootErrands::Answer {
  AnswerHeader header;
  std::string text;
  Descriptor fd;
};

bool RootErrands::Send(const ErrandHeader& header, std::string_view text, std::span<const int> fds) {
  const std::lock_guard lock(mutex_);
  if (link_.is_open() && SendMessage(link_.get(), &header, sizeof header, text, fds)) return true;
  // Connects again and sends the message once more, because the launcher may have been restarted.
  auto again = ConnectErrands(socket_);
  if (!again) return false;
  link_ = *std::move(again);
  return SendMessage(link_.get(), &header, sizeof header, text, fds);
}

Result<Descriptor> RootErrands::Begin(ErrandHeader header, std::string_view text, std::span<const int> given) {
  if (text.size() > kMostErrandText) return LimitExceeded("the request is larger than the launcher's limit of 128 KiB");
  header.text_size = static_cast<std::uint32_t>(text.size());
  auto [ours, theirs] = MakeAnswerPair();
  if (!ours.is_open()) return LimitExceeded("no file descriptor is left for a request to the launcher");
  std::vector<int> fds = {theirs.get()};
  fds.insert(fds.end(), given.begin(), given.end());
  if (!Send(header, text, fds)) {
    return Unreachable("the launcher does not answer at '" + socket_ +
                       "'; start it with systemctl start divvy-launcher, or with divvy up or divvy agent as root");
  }
  return std::move(ours);
}

std::optional<RootErrands::Answer> RootErrands::Receive(int socket) {
  auto received = ReceiveMessage(socket);
  Answer answer;
  if (!received || received->bytes.size() < sizeof answer.header) return std::nullopt;
  std::memcpy(&answer.header, received->bytes.data(), sizeof answer.header);
  answer.text = received->bytes.substr(sizeof answer.header);
  if (!received->fds.empty()) answer.fd = std::move(received->fds.front());
  return answer;
}

Result<RootErrands::Answer> RootErrands::Ask(ErrandHeader header, std::string_view text, std::span<const int> given) {
  DIVVY_TRY(const Descriptor socket, Begin(header, text, given));
  if (!IsReadable(socket.get(), kAnswerWithinMs))
    return Error{ErrorCode::kTimedOut, "the launcher did not answer within a minute"};
  auto answer = Receive(socket.get());
  if (!answer) return Unreachable("the launcher ended before it answered");
  if (answer->header.refusal != 0) return PermissionDenied(answer->text);
  return *std::move(answer);
}

Result<IsolationFacts> RootErrands::Isolation() {
  ErrandHeader header;
  header.kind = ErrandKind::kIsolation;
  DIVVY_TRY(const Answer answer, Ask(header));
  return ReadIsolationFacts(answer.text);
}

Result<UserRight> RootErrands::RightOf(int connection) {
  ErrandHeader header;
  header.kind = ErrandKind::kRight;
  DIVVY_TRY(const Answer answer, Ask(header, {}, {&connection, 1}));
  return answer.header.right;
}

namespace {

ErrandHeader HeaderAs(const UserWithRight& user, ErrandKind kind) {
  ErrandHeader header;
  header.kind = kind;
  header.uid = user.uid;
  header.gid = user.gid;
  header.right = user.right;
  return header;
}

}  // namespace

Result<LogRead> RootErrands::StartReadLog(const UserWithRight& user, const std::string& path, const LogRange& range) {
  const ReadOrder order = {.at = range.at, .last = range.last, .most = range.most, .newest = range.newest ? 1U : 0U};
  std::string text(reinterpret_cast<const char*>(&order), sizeof order);
  DIVVY_TRY(Descriptor socket, Begin(HeaderAs(user, ErrandKind::kReadLog), text + path));
  return LogRead(std::move(socket), range.at);
}

std::optional<LogPiece> LogRead::Take(std::chrono::steady_clock::time_point until) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  if (!IsReadable(socket_.get(), static_cast<int>(std::max<std::int64_t>(left, 0)))) return std::nullopt;
  LogPiece piece{.next = at_};
  const auto answer = RootErrands::Receive(socket_.get());
  ReadAnswer read;
  if (!answer) {
    piece.error = EIO;
    piece.trouble = "the launcher ended before it answered";
  } else if (answer->header.refusal != 0) {
    piece.error = EACCES;
    piece.trouble = answer->text;
  } else if (answer->header.error != 0 || answer->text.size() != sizeof read) {
    piece.error = answer->header.error != 0 ? answer->header.error : EPROTO;
  } else {
    std::memcpy(&read, answer->text.data(), sizeof read);
    piece.next = read.next;
    piece.size = read.size;
    piece.text.resize(std::min<std::uint64_t>(read.text_size, kLogPieceBytes));
    const auto size = static_cast<ssize_t>(piece.text.size());
    if (size > 0 && ::pread(answer->fd.get(), piece.text.data(), piece.text.size(), 0) != size)
      piece = {.next = at_, .error = EIO};
  }
  return piece;
}

LogPiece RootErrands::ReadLog(const UserWithRight& user, const std::string& path, const LogRange& range) {
  auto read = StartReadLog(user, path, range);
  if (!read) return {.next = range.at, .error = EACCES, .trouble = read.error().message};
  return read->Take(std::chrono::steady_clock::now() + kLongestRead)
      .value_or(LogPiece{.next = range.at, .error = ETIMEDOUT});
}

Result<UserRight> RootErrands::RightByName(const UserWithRight& user) {
  DIVVY_TRY(const Answer answer, Ask(HeaderAs(user, ErrandKind::kRightByName)));
  return answer.header.right;
}

Status RootErrands::WriteGpus(JobId job, GpuSet gpus) {
  ErrandHeader header;
  header.kind = ErrandKind::kWriteGpus;
  header.job = job.value();
  header.gpus = gpus.bits();
  DIVVY_TRY(const Answer answer, Ask(header));
  return {};
}

Status RootErrands::StageGang(const UserWithRight& user, JobId job, const std::string& gang, bool says) {
  ErrandHeader header = HeaderAs(user, ErrandKind::kStageGang);
  header.job = job.value();
  header.choice = says ? 1 : 0;
  DIVVY_TRY(const Answer answer, Ask(header, gang));
  return {};
}

Result<int> RootErrands::SignalOrphans(JobId job, int signal, OrphanReach reach) {
  ErrandHeader header;
  header.kind = ErrandKind::kSignalOrphans;
  header.job = job.value();
  header.signal = signal;
  header.choice = static_cast<std::uint32_t>(reach);
  DIVVY_TRY(const Answer answer, Ask(header));
  return static_cast<int>(answer.header.value);
}

Result<StartedProgram> RootErrands::Start(const UserWithRight& user, UserProgram program, const std::string& argument,
                                          int input) {
  ErrandHeader header = HeaderAs(user, ErrandKind::kStart);
  header.choice = static_cast<std::uint32_t>(program);
  DIVVY_TRY(Answer answer, Ask(header, argument, {&input, input < 0 ? 0U : 1U}));
  if (!answer.fd.is_open())
    return Internal(std::string("no process could be started: ") + std::strerror(answer.header.error));
  return StartedProgram{answer.header.value, std::move(answer.fd)};
}

Result<std::int64_t> RootErrands::StartKeeper(bool is_emulated) {
  ErrandHeader header;
  header.kind = ErrandKind::kStartKeeper;
  header.choice = is_emulated ? 1 : 0;
  DIVVY_TRY(const Answer answer, Ask(header));
  return answer.header.value;
}

std::optional<int> RootErrands::ExitOf(JobId job) {
  ErrandHeader header;
  header.kind = ErrandKind::kExitOf;
  header.job = job.value();
  const auto answer = Ask(header);
  if (!answer || answer->header.value < 0) return std::nullopt;
  return static_cast<int>(answer->header.value);
}

Status RootErrands::Command(JobId job, std::string_view text, std::span<const int> fds) {
  ErrandHeader header;
  header.kind = ErrandKind::kCommand;
  header.job = job.value();
  DIVVY_TRY(const Answer answer, Ask(header, text, fds));
  if (answer.header.error == EAGAIN) return LimitExceeded("the supervisor has too many commands to read; try again");
  if (answer.header.error != 0) return Unreachable("the supervisor is gone");
  return {};
}

std::optional<std::int64_t> RootErrands::RefusedDevices(JobId job) {
  ErrandHeader header;
  header.kind = ErrandKind::kRefusedDevices;
  header.job = job.value();
  const auto answer = Ask(header);
  if (!answer || answer->header.value < 0) return std::nullopt;
  return answer->header.value;
}

std::vector<IoCounts> RootErrands::ReadIo(std::span<const std::int64_t> pids) {
  ErrandHeader header;
  header.kind = ErrandKind::kReadIo;
  pids = pids.first(std::min(pids.size(), kMostPids));
  const auto answer = Ask(header, {reinterpret_cast<const char*>(pids.data()), pids.size_bytes()});
  std::vector<IoCounts> counts(answer ? answer->text.size() / sizeof(IoCounts) : 0);
  if (!counts.empty()) std::memcpy(counts.data(), answer->text.data(), counts.size() * sizeof(IoCounts));
  return counts;
}

// ---- The launcher's side --------------------------------------------------------------------------------------------

Status CheckUid(std::int64_t uid, std::int64_t lowest_uid, bool runs_root_jobs) {
  if (uid == 0 && runs_root_jobs) return {};
  if (uid == 0)
    return PermissionDenied(
        "the launcher runs nothing as root; to allow it, set root_jobs = true in [jobs] of divvy.toml");
  // Uids of systemd's dynamic users (systemd.exec(5)), of "nobody", and Linux's 16-bit form of "no user".
  const bool is_nobodys = (uid >= 61'184 && uid <= 65'519) || uid == 65'534 || uid == 65'535;
  if (uid >= lowest_uid && uid < 0xFFFF'FFFF && !is_nobodys) return {};
  if (is_nobodys) {
    return PermissionDenied("the launcher runs nothing as uid " + std::to_string(uid) +
                            ", which is reserved for services (61184 to 65519) or nobody; give the user another uid");
  }
  return PermissionDenied("the launcher runs nothing as uid " + std::to_string(uid) +
                          ", which is a system user; to allow it, lower lowest_uid in [jobs] of divvy.toml (now " +
                          std::to_string(lowest_uid) + ")");
}

namespace {

class Errand {
 public:
  Errand(ErrandHeader header, std::string text, std::vector<Descriptor> fds, const ErrandSetup& setup,
         RightIssuer& issuer, RunningReads& reads)
      : header_(header),
        text_(std::move(text)),
        setup_(setup),
        issuer_(issuer),
        reads_(reads),
        answer_to_(std::move(fds.front())) {
    if (fds.size() > 1 && header.kind != ErrandKind::kCommand) given_ = std::move(fds[1]);
    for (std::size_t i = 1; i < fds.size(); ++i) passed_.push_back(std::move(fds[i]));
  }

  void Do(RightChecker& checker) {
    switch (header_.kind) {
      case ErrandKind::kIsolation:
        return InChild([this] { Answer(0, 0, IsolationFactsText(LearnIsolation())); });
      case ErrandKind::kRight:
        return IssueRight();
      case ErrandKind::kReadLog:
        if (const int error = reads_.Refuses(header_.uid, std::chrono::steady_clock::now()); error != 0)
          return Answer(error, 0);
        return AsUser(checker, [this] { ReadLog(); });
      case ErrandKind::kOpenLog:
        break;
      case ErrandKind::kWriteGpus:
        return AnswerStatus(WriteGpusFile(setup_.run_directory, job(), GpuSet::FromBits(header_.gpus)));
      case ErrandKind::kStageGang:
        return AsUser(checker, [this] { StageGang(); });
      case ErrandKind::kSignalOrphans:
        return InChild([this] { Signal(); });
      case ErrandKind::kStart:
        return AsUser(checker, [this] { StartProgram(); });
      case ErrandKind::kStartKeeper:
        return InChild([this] { StartKeeper(); });
      case ErrandKind::kReadIo:
        return ReadIo();
      case ErrandKind::kExitOf:
        return SayExit();
      case ErrandKind::kRefusedDevices:
        return SayRefusedDevices();
      case ErrandKind::kCommand:
        return PassCommand();
      case ErrandKind::kRightByName:
        return IssueByName(checker);
    }
    Refuse("the launcher does not know this request; restart it, it may be from another release");
  }

 private:
  JobId job() const { return JobId(header_.job); }

  void Answer(int error, std::int64_t value, std::string_view text = {}, int fd = -1, const UserRight& right = {}) {
    AnswerHeader header = {.error = error, .value = value, .right = right};
    header.text_size = static_cast<std::uint32_t>(text.size());
    SendMessage(answer_to_.get(), &header, sizeof header, text, std::span(&fd, fd < 0 ? 0U : 1U));
  }
  void Refuse(std::string_view why) {
    AnswerHeader header = {.refusal = 1};
    header.text_size = static_cast<std::uint32_t>(why.size());
    SendMessage(answer_to_.get(), &header, sizeof header, why, {});
  }
  void AnswerStatus(const Status& status) {
    if (status) Answer(0, 0);
    else Refuse(status.error().message);
  }

  /// Does work in a child process, because it may take long or continues as another user. The launcher does not wait
  /// for these children; the kernel reaps them.
  template <typename Work>
  void InChild(Work work) {
    const pid_t child = ::fork();
    if (child < 0) return Refuse(std::string("the launcher cannot start a process: ") + std::strerror(errno));
    if (child > 0 && header_.kind == ErrandKind::kReadLog)
      reads_.Add(header_.uid, child, std::chrono::steady_clock::now());
    if (child > 0) return;
    if (header_.kind != ErrandKind::kRightByName) issuer_.Forget();
    ::signal(SIGCHLD, SIG_DFL);
    ::alarm(kErrandSeconds);
    sigset_t none;
    ::sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
    work();
    ::_exit(0);
  }

  /// True if the program sends mail as the daemon's own user. The launcher starts it, outside the restrictions of the
  /// daemon's systemd unit, because sendmail needs its set-gid helper.
  bool IsOwnProgram() const {
    return header_.kind == ErrandKind::kStart && header_.uid > 0 && header_.uid == setup_.daemon_uid &&
           header_.gid == setup_.daemon_gid && header_.choice == static_cast<std::uint32_t>(UserProgram::kDeliver);
  }

  template <typename Work>
  void AsUser(RightChecker& checker, Work work) {
    if (IsOwnProgram()) return InChild(work);
    if (const Status may = CheckUid(header_.uid, setup_.lowest_uid, setup_.runs_root_jobs); !may)
      return Refuse(may.error().message);
    if (checker.IsGood(header_.uid, header_.gid, header_.right)) return InChild(work);
    if (!checker.has_controllers_key()) return RefuseRight();
    // Runs in a child because the name service may be slow.
    InChild([&] { checker.IsGoodByName(header_.uid, header_.gid, header_.right) ? work() : RefuseRight(); });
  }
  void RefuseRight() {
    Refuse("the daemon has no right to act as uid " + std::to_string(header_.uid) +
           "; it gets it when that user runs divvy on the controller's node");
  }

  uid_t uid() const { return static_cast<uid_t>(header_.uid); }
  gid_t gid() const { return static_cast<gid_t>(header_.gid); }

  void IssueRight() {
    const auto caller = CallerOf(given_.get());
    if (!caller) return Refuse(caller.error().message);
    if (const Status may = CheckUid(caller->first, setup_.lowest_uid, setup_.runs_root_jobs); !may)
      return Refuse(may.error().message);
    Answer(0, 0, {}, -1, issuer_.Issue(caller->first, caller->second));
  }

  // This child keeps the key: it only looks up a name, starts no program and handles no user's data.
  void IssueByName(RightChecker& checker) {
    if (!checker.IsGood(header_.uid, header_.gid, header_.right)) return RefuseRight();
    InChild([this] {
      const auto account = AccountNameOf(header_.uid);
      if (!account) return Refuse("there is no account with uid " + std::to_string(header_.uid));
      Answer(0, 0, {}, -1, issuer_.IssueByName(account->name));
    });
  }

  // The user's file system may block any access for ever. By then this process has become the user, and it keeps only
  // the socket for its answer: the next launcher would wait until this one's sockets are closed.
  void ReadLog() {
    ReadOrder order;
    if (text_.size() < sizeof order) return Answer(EINVAL, 0);
    std::memcpy(&order, text_.data(), sizeof order);
    const std::string path = text_.substr(sizeof order);
    if (!path.starts_with('/') || path.find('\0') != std::string::npos) return Answer(EINVAL, 0);
    UserGroups groups;
    const int kept = 3;
    if (answer_to_.get() != kept) ::dup2(answer_to_.Release(), kept);
    ::syscall(SYS_close_range, static_cast<unsigned>(kept) + 1, ~0U, 0U);
    answer_to_.Reset(kept);
    if (!BecomeOwner({uid(), gid(), &groups.Of(uid(), gid())})) return Answer(EPERM, 0);
    // Opening a pipe would affect its other users.
    struct stat status = {};
    if (::stat(path.c_str(), &status) != 0) return Answer(errno, 0);
    if (!S_ISREG(status.st_mode)) return Answer(EINVAL, 0);
    const Descriptor file = OpenAsOwner(path, O_RDONLY | O_CLOEXEC);
    if (!file.is_open()) return Answer(errno, 0);
    const LogPiece piece = ReadOpenLog(file,
                                       {.at = std::max<std::int64_t>(order.at, -1),
                                        .last = std::max<std::int64_t>(order.last, -1),
                                        .most = std::min<std::uint64_t>(order.most, kLogPieceBytes),
                                        .newest = order.newest != 0},
                                       true);
    if (piece.error != 0) return Answer(piece.error, 0);
    const ReadAnswer read = {.next = piece.next, .size = piece.size, .text_size = piece.text.size()};
    const Descriptor memory(piece.text.empty() ? -1 : ::memfd_create("log", MFD_CLOEXEC));
    const auto size = static_cast<ssize_t>(piece.text.size());
    if (size > 0 && ::write(memory.get(), piece.text.data(), piece.text.size()) != size) return Answer(ENOMEM, 0);
    Answer(0, 0, {reinterpret_cast<const char*>(&read), sizeof read}, memory.get());
  }

  // Writes the gang's file as the user, without the user's supplementary groups: the folder belongs to the user, so
  // they do not matter.
  void StageGang() {
    const std::string steps = StepListPath(setup_.run_directory, header_.uid, header_.job);
    Status staged;
    const std::vector<gid_t> own = {gid()};
    const bool became = RunAs({uid(), gid(), &own}, [&] {
      staged = StageGo(steps, text_, header_.uid, header_.gid);
      if (staged && header_.choice == 1 && !SayGo(steps))
        staged = Internal("cannot tell this node's part of the job to start");
    });
    AnswerStatus(became ? staged : Status(Internal("cannot become the user")));
  }

  // Root created the record, so these are processes of a job, whatever the daemon claims.
  void Signal() {
    const auto record = ReadRunRecord(setup_.run_directory, job());
    if (!record) return Refuse(record.error().message);
    if (header_.signal < 0 || header_.signal >= NSIG) return Refuse("unknown signal");
    switch (static_cast<OrphanReach>(header_.choice)) {
      case OrphanReach::kTree: {
        // The pid of the job's first process may belong to another process by now.
        const auto now = ReadProcessStat(static_cast<pid_t>(record->process.pid));
        const bool is_other = record->process.pid <= 0 || (now && now->start_ticks != record->process.start_ticks);
        return Answer(0, is_other ? 0 : divvy::SignalOrphans(static_cast<pid_t>(record->process.pid), header_.signal));
      }
      case OrphanReach::kFirst:
        if (const auto process = AdoptedProcess::Open(record->process)) process->Signal(header_.signal);
        return Answer(0, 1);
      case OrphanReach::kLeftBehind:
        return Answer(0, SignalLeftBehind(record->process, "DIVVY_JOB_ID=" + ToString(job()), header_.signal));
    }
    Refuse("unknown scope of a signal");
  }

  // The kernel shows the exit code of a process that is not yet reaped only to its own user and to root.
  void SayExit() {
    const auto record = ReadRunRecord(setup_.run_directory, job());
    const auto stat = record ? ReadProcessStat(static_cast<pid_t>(record->process.pid)) : std::nullopt;
    const bool is_known = stat && stat->start_ticks == record->process.start_ticks && stat->state == 'Z';
    Answer(0, is_known ? stat->exit_status : -1);
  }

  // Sends to the address in the record, which root has written. The supervisor also requires the job's secret.
  void PassCommand() {
    const auto record = ReadRunRecord(setup_.run_directory, job());
    if (!record) return Answer(ESRCH, 0);
    if (record->commander >= 0) return Refuse("this supervisor takes commands from the daemon itself");
    std::vector<int> fds;
    for (const Descriptor& one : passed_) fds.push_back(one.get());
    const Status sent = SendCommandText(*record, text_, fds);
    Answer(sent ? 0 : sent.error().code == ErrorCode::kLimitExceeded ? EAGAIN : ESRCH, 0);
  }

  void SayRefusedDevices() {
    const auto record = ReadRunRecord(setup_.run_directory, job());
    Answer(0, record ? JobCgroup::Open(record->cgroup).RefusedDevices().value_or(-1) : -1);
  }

  // Uses the groups of the name service. That may be slow, but this child blocks no other request.
  bool BecomeUser() const {
    UserGroups groups;
    const std::vector<gid_t>& known = groups.Of(uid(), gid());
    return ::setgroups(known.size(), known.data()) == 0 && ::setresgid(gid(), gid(), gid()) == 0 &&
           ::setresuid(uid(), uid(), uid()) == 0;
  }

  bool JoinCgroup() const {
    return std::ranges::all_of(cgroup_.procs_files(), [](const std::string& path) {
      const Descriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
      return file.is_open() && ::write(file.get(), "0", 1) == 1;
    });
  }

  /// Runs in a child of the launcher: starts `words` as its own child and answers with its pid and pidfd. Also returns
  /// the pidfd, which is closed if no process could be started.
  Descriptor StartWords(std::vector<std::string> words, bool is_users, int streams, int errors) {
    int gate[2] = {-1, -1};
    const pid_t child = ::pipe2(gate, O_CLOEXEC) == 0 ? ::fork() : -1;
    if (child < 0) {
      Answer(errno, 0);
      return {};
    }
    if (child == 0) {
      ::setsid();
      ::alarm(0);
      // The program is executed only after the daemon has got a descriptor of this process.
      char go = 0;
      if (::read(gate[0], &go, 1) != 1) ::_exit(1);
      const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
      const std::array<int, 3> from = {streams < 0 ? null : streams, streams < 0 ? null : streams,
                                       errors < 0 ? null : errors};
      std::array<int, 3> above = {};
      for (std::size_t i = 0; i < 3; ++i) above[i] = ::fcntl(from[i], F_DUPFD, 10);
      for (int i = 0; i < 3; ++i) ::dup2(above[static_cast<std::size_t>(i)], i);
      ::syscall(SYS_close_range, 3U, ~0U, 0U);
      if (!JoinCgroup()) ::_exit(126);
      SetSystemLimits(limits_);
      if (is_users && !BecomeUser()) ::_exit(126);
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      std::array<char*, 1> environment = {nullptr};
      ::execve("/proc/self/exe", argv.data(), environment.data());
      ::_exit(127);
    }
    Descriptor pidfd(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)));
    Answer(pidfd.is_open() ? 0 : errno, child, {}, pidfd.get());
    static_cast<void>(!::write(gate[1], "g", 1));
    return pidfd;
  }

  void StartProgram() {
    switch (static_cast<UserProgram>(header_.choice)) {
      case UserProgram::kDeliver:
        // Mail has no cgroup, because sendmail may leave a process behind that sends it.
        if (IsOwnProgram())
          return void(StartWords({"divvy", "internal-deliver", setup_.sendmail}, true, given_.get(), -1));
        return RunProgram(
            {"divvy", "internal-deliver"},
            std::clamp<std::int64_t>(ParseInteger(text_).value_or(kLongestProgramSeconds), 1, kLongestProgramSeconds));
      case UserProgram::kContainerRemoval:
        return RunProgram({"divvy", "internal-container-remove", std::to_string(header_.uid),
                           std::to_string(header_.gid), text_, setup_.container_engine},
                          kErrandSeconds);
    }
    Refuse("unknown program");
  }

  /// Starts the program in its own cgroup and waits to end it. Waits as root, because the user could kill a waiting
  /// process of their own.
  void RunProgram(std::vector<std::string> words, std::int64_t limit_seconds) {
    cgroup_ = MakeProgramCgroup(setup_.run_directory, setup_.closed_devices);
    UserLimits rules;
    limits_ = SystemLimitsOf(UnderRules({}, rules.Of(header_.uid, header_.gid, kNoTime)));
    const Descriptor program = StartWords(std::move(words), true, given_.get(), -1);
    if (cgroup_.is_empty()) return;
    ::alarm(0);
    ::prctl(PR_SET_NAME, "divvy-program");
    // Keeps only the descriptor by which it notices the program's end. The daemon waits until its streams are closed,
    // and the next launcher until the sockets of this one are closed.
    const int kept = 3;
    if (program.is_open() && program.get() != kept) ::dup2(program.get(), kept);
    ::syscall(SYS_close_range, static_cast<unsigned>(kept) + 1, ~0U, 0U);
    pollfd ended = {.fd = kept, .events = POLLIN, .revents = 0};
    if (program.is_open()) ::poll(&ended, 1, static_cast<int>((limit_seconds + kProgramGraceSeconds) * 1000));
    cgroup_.End(kEndTimeout);
    ::_exit(0);  // The descriptors are closed already.
  }

  void StartKeeper() {
    std::vector<std::string> words = {"divvy",       "keeper",
                                      "--directory", setup_.run_directory + "/share",
                                      "--served-by", std::to_string(setup_.daemon_uid)};
    if (header_.choice == 1) {
      if (setup_.emulation.empty()) return Refuse("root has not set up emulated GPUs (divvy up --emulate)");
      for (const char* library : {"libnvidia-ml.so.1", "libcuda.so.1"})
        words.insert(words.end(), {"--emulate-library", setup_.emulation + "/" + library});
    }
    const std::string path = setup_.run_directory + "/keeper.log";
    const Descriptor log(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0640));
    if (log.is_open()) static_cast<void>(!::fchown(log.get(), 0, static_cast<gid_t>(setup_.daemon_gid)));
    StartWords(std::move(words), false, -1, log.get());
  }

  void ReadIo() {
    std::vector<std::int64_t> pids(std::min(text_.size() / sizeof(std::int64_t), kMostPids));
    if (!pids.empty()) std::memcpy(pids.data(), text_.data(), pids.size() * sizeof(std::int64_t));
    std::vector<IoCounts> counts;
    ProcText reader;
    char path[64];
    for (const std::int64_t pid : pids) {
      if (pid <= 0) continue;
      std::snprintf(path, sizeof path, "/proc/%lld/io", static_cast<long long>(pid));
      const std::string_view text = reader.Read(path);
      if (!text.empty()) counts.push_back({pid, NumberBehind(text, "read_bytes:"), NumberBehind(text, "write_bytes:")});
    }
    Answer(0, 0, {reinterpret_cast<const char*>(counts.data()), counts.size() * sizeof(IoCounts)});
  }

  ErrandHeader header_;
  std::string text_;
  const ErrandSetup& setup_;
  RightIssuer& issuer_;
  RunningReads& reads_;
  Descriptor answer_to_;
  Descriptor given_;
  std::vector<Descriptor> passed_;  // All passed descriptors of a command.
  // These two members are set only for programs of RunProgram.
  JobCgroup cgroup_;
  std::vector<SystemLimit> limits_;
};

}  // namespace

int RunningReads::Refuses(std::int64_t uid, SteadyTime now) {
  // The descriptor of a process is readable when it has ended.
  std::erase_if(reads_, [](const One& one) { return IsReadable(one.process.get(), 0); });
  int all = 0, stuck = 0;
  for (const One& one : reads_) {
    all += one.uid == uid;
    stuck += one.uid == uid && now - one.since > kSlow;
  }
  return stuck >= kMostStuck ? ETIMEDOUT : all >= kMost ? EAGAIN : 0;
}

void RunningReads::Add(std::int64_t uid, pid_t pid, SteadyTime now) {
  Descriptor process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (process.is_open()) reads_.push_back({uid, std::move(process), now});
}

bool DoErrand(int link, const ErrandSetup& setup, RightIssuer& issuer, RightChecker& checker, RunningReads& reads) {
  auto received = ReceiveMessage(link);
  ErrandHeader header;
  if (!received || received->bytes.size() < sizeof header || received->fds.empty()) return false;
  const std::uint32_t form = header.form;
  std::memcpy(&header, received->bytes.data(), sizeof header);
  if (header.form != form || received->bytes.size() != sizeof header + header.text_size) return false;
  if (!IsAnswerSocket(received->fds.front().get())) return false;
  Errand(header, received->bytes.substr(sizeof header), std::move(received->fds), setup, issuer, reads).Do(checker);
  return true;
}

}  // namespace divvy
