#include "daemon/services/haproxy.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/text.h"
#include "daemon/runtime/await_readable.h"
#include "daemon/services/request_times.h"
#include "platform/gpu/gpu_process.h"
#include "platform/os/image_file.h"
#include "platform/os/spawn.h"
#include "platform/os/unique_fd.h"
#include "platform/os/unix_socket.h"
#include "platform/supervisor/supervisor_adoption.h"

namespace divvy {
namespace {

namespace asio = boost::asio;
using Local = asio::local::stream_protocol;

constexpr std::size_t kMostLine = 12'000;  // HAProxy reads a line of commands into one buffer of 16 KiB.
constexpr std::size_t kMostAnswer = 64 << 20;
constexpr std::chrono::seconds kAnswersWithin{5};
constexpr Duration kStartLook = std::chrono::milliseconds(30);
constexpr Duration kStartsWithin = std::chrono::seconds(5);
constexpr Duration kStable = std::chrono::seconds(5);
constexpr Duration kLongestPause = std::chrono::seconds(5);
// HAProxy adds its pid to the path while it binds the socket.
constexpr std::size_t kLongestSocket = 97;
// Each change of the configuration leaves the replaced HAProxy process until its requests are answered, for at most an
// hour (hard-stop-after). Such a process is not ended earlier, because it may have requests of any user.
constexpr std::size_t kMostOld = 100;
constexpr std::size_t kMostOldOfUser = 10;  // Replaced processes per user, of the last half hour, that still run.
constexpr Duration kCountsFor = std::chrono::minutes(30);
constexpr Duration kBetweenChanges = std::chrono::seconds(2);
constexpr std::string_view kPrefix = "front-";
constexpr std::array<std::string_view, 3> kEndings = {".sock", ".pid", ".cfg"};

std::string ReadAll(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text;
  char part[4096];
  for (ssize_t got = 0; file.is_open() && (got = ::read(file.get(), part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(got));
  return text;
}

/// The pid of the process that listens at this socket; 0 if there is none.
std::int64_t ListenerAt(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return 0;
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  const Descriptor end(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!end.is_open() || ::connect(end.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return 0;
  return CredentialsOf(end.get()).pid;
}

/// Returns a socket at an IPv4 or IPv6 address and port (0: any), with a socket option; closed if it cannot be bound.
Descriptor BoundTo(const std::string& host, std::int64_t port, int option) {
  const int on = 1;
  sockaddr_in four{};
  sockaddr_in6 six{};
  const bool is_six = ::inet_pton(AF_INET6, host.c_str(), &six.sin6_addr) == 1;
  four.sin_family = AF_INET;
  six.sin6_family = AF_INET6;
  four.sin_port = six.sin6_port = htons(static_cast<std::uint16_t>(port));
  ::inet_pton(AF_INET, host.c_str(), &four.sin_addr);
  Descriptor end(::socket(is_six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_bound = end.is_open() && ::setsockopt(end.get(), SOL_SOCKET, option, &on, sizeof on) == 0 &&
                        (!is_six || ::setsockopt(end.get(), IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on) == 0) &&
                        (is_six ? ::bind(end.get(), reinterpret_cast<const sockaddr*>(&six), sizeof six)
                                : ::bind(end.get(), reinterpret_cast<const sockaddr*>(&four), sizeof four)) == 0;
  if (!is_bound) end.Reset();
  return end;
}

/// Returns the users whose services differ.
std::set<std::int64_t> ChangedUsers(const std::vector<FrontService>& before, const std::vector<FrontService>& after) {
  std::map<std::string, std::pair<std::int64_t, std::string>> known;
  for (const FrontService& one : before) known[one.settings.name] = {one.uid, HaproxyConfig({}, "", {one})};
  std::set<std::int64_t> users;
  for (const FrontService& one : after) {
    const auto found = known.find(one.settings.name);
    if (found == known.end() || found->second.second != HaproxyConfig({}, "", {one})) users.insert(one.uid);
    if (found != known.end()) known.erase(found);
  }
  for (const auto& [name, gone] : known) users.insert(gone.first);
  return users;
}

/// One line for the runtime socket, and its answer.
struct Exchange {
  explicit Exchange(asio::io_context& loop) : socket(loop), limit(loop) {}
  Local::socket socket;
  asio::steady_timer limit;
  std::vector<std::string> lines;
  std::size_t next = 0;
  std::string answer;
  std::string path;
  std::function<void(Result<std::string>)> done;
};

/// Describes what is wrong with the answer that has arrived; empty if it is complete and correct.
std::string ExchangeProblem(const Exchange& exchange) {
  if (exchange.answer.size() >= kMostAnswer) return "HAProxy's answer is longer than 64 MiB";
  if (exchange.next + 1 == exchange.lines.size()) return "";
  const std::string complaint = ComplaintIn(exchange.answer);
  return complaint.empty() ? "" : "HAProxy refused a command: " + OneLine(complaint);
}

void SendNext(const std::shared_ptr<Exchange>& exchange) {
  boost::system::error_code error;
  exchange->socket.close(error);
  exchange->answer.clear();
  exchange->limit.expires_after(kAnswersWithin);
  exchange->limit.async_wait([exchange](const boost::system::error_code& cancelled) {
    boost::system::error_code ignored;
    if (!cancelled) exchange->socket.close(ignored);
  });
  const auto fail = [exchange](const boost::system::error_code& why) {
    exchange->limit.cancel();
    std::exchange(exchange->done, nullptr)(Unreachable("HAProxy's runtime socket: " + why.message()));
  };
  exchange->socket.async_connect(
      Local::endpoint(exchange->path), [exchange, fail](const boost::system::error_code& refused) {
        if (refused) return fail(refused);
        asio::async_write(exchange->socket, asio::buffer(exchange->lines[exchange->next]),
                          [exchange, fail](const boost::system::error_code& broken, std::size_t) {
                            if (broken) return fail(broken);
                            asio::async_read(exchange->socket, asio::dynamic_buffer(exchange->answer, kMostAnswer),
                                             [exchange, fail](const boost::system::error_code& end, std::size_t) {
                                               if (end && end != asio::error::eof) return fail(end);
                                               exchange->limit.cancel();
                                               const std::string why = ExchangeProblem(*exchange);
                                               if (!why.empty())
                                                 return std::exchange(exchange->done, nullptr)(Unreachable(why));
                                               if (++exchange->next < exchange->lines.size()) return SendNext(exchange);
                                               std::exchange(exchange->done, nullptr)(std::move(exchange->answer));
                                             });
                          });
      });
}

/// A process that an earlier daemon has started, or its files.
struct LeftFront {
  std::int64_t number = 0;
  std::string base;                       // The begin of the paths of its files.
  std::optional<AdoptedProcess> process;  // nullopt: the process has ended.
  bool listens = false;                   // True if the process listens at its runtime socket.
};

/// Returns the HAProxy processes, and files of ended ones, that earlier daemons left in this folder, newest first.
std::vector<LeftFront> FindLeft(const std::string& directory) {
  DIR* folder = ::opendir(directory.c_str());
  if (folder == nullptr) return {};
  std::vector<LeftFront> all;
  while (const dirent* entry = ::readdir(folder)) {
    std::string_view name = entry->d_name;
    if (!name.starts_with(kPrefix) || !name.ends_with(".cfg")) continue;
    name.remove_prefix(kPrefix.size());
    name.remove_suffix(4);
    if (const auto number = ParseInteger(name)) all.emplace_back().number = *number;
  }
  ::closedir(folder);
  std::ranges::sort(all, std::greater(), &LeftFront::number);
  for (LeftFront& left : all) {
    left.base = directory + "/" + std::string(kPrefix) + std::to_string(left.number);
    const std::int64_t listener = ListenerAt(left.base + ".sock");
    left.listens = listener > 0;
    const std::string text = ReadAll(left.base + ".pid");
    const auto words = SplitWords(text);
    std::optional<ProcessIdentity> identity;
    if (words.size() == 2)
      identity = ProcessIdentity{ParseInteger(words[0]).value_or(0),
                                 static_cast<std::uint64_t>(ParseInteger(words[1]).value_or(0))};
    // The file is missing if the daemon was killed right after the start.
    if (const auto stat = listener > 0 ? ReadGpuProcessStat(listener) : std::nullopt)
      identity = ProcessIdentity{listener, stat->start_ticks};
    if (!identity) continue;
    if (auto process = AdoptedProcess::Open(*identity)) left.process.emplace(*std::move(process));
  }
  return all;
}

}  // namespace

std::string FindHaproxy(const std::string& configured, bool is_machine_wide) {
  if (!configured.empty()) return ::access(configured.c_str(), X_OK) == 0 ? configured : "";
  std::string path = "/usr/sbin";
  const char* own = is_machine_wide ? nullptr : std::getenv("PATH");
  if (own != nullptr) path = std::string(own) + ":" + path;
  for (const std::string_view folder : Split(path, ':')) {
    std::string program = std::string(folder) + "/haproxy";
    if (folder.starts_with('/') && ::access(program.c_str(), X_OK) == 0) return program;
  }
  return "";
}

std::string FrontHost6(const std::string& listen_host) {
  const std::string host = listen_host == "0.0.0.0" ? "::" : listen_host == "127.0.0.1" ? "::1" : "";
  return !host.empty() && BoundTo(host, 0, SO_REUSEADDR).is_open() ? host : "";
}

std::int64_t FrontConnections() {
  constexpr std::int64_t kMost = 20'000;
  constexpr std::int64_t kOthers = 500;  // Files of HAProxy that are no connections.
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_max == RLIM_INFINITY) return kMost;
  return std::clamp<std::int64_t>((static_cast<std::int64_t>(files.rlim_max) - kOthers) / 2, 100, kMost);
}

struct Haproxy::Process {
  Process(asio::io_context& loop, AdoptedProcess adopted, std::int64_t number)
      : process(std::move(adopted)), ended(loop, ::dup(process.fd())), generation(number) {}

  AdoptedProcess process;
  asio::posix::stream_descriptor ended;
  std::int64_t generation = 0;
  std::string config;
  std::map<std::string, std::int64_t> slots;  // By backend.
  bool is_started = false;                    // Its runtime socket has answered.
  bool is_change_due = false;                 // The services have changed while it started.
  std::function<void()> ask_started;          // Asks it until it answers.
  std::chrono::steady_clock::time_point since = std::chrono::steady_clock::now();
  std::vector<FrontService> services;  // Unknown for an adopted process.
  std::set<std::int64_t> replaced_by;  // The users whose changes replaced it.
  std::chrono::steady_clock::time_point replaced_at;
};

Haproxy::Haproxy(asio::io_context& loop, Options options, Ports ports)
    : loop_(loop), options_(std::move(options)), ports_(std::move(ports)) {}

Haproxy::~Haproxy() { *is_alive_ = false; }

bool Haproxy::is_up() const { return current_ != nullptr; }
std::int64_t Haproxy::pid() const { return current_ ? current_->process.process().pid : 0; }
bool Haproxy::has_old() const { return !old_.empty(); }

std::string Haproxy::SocketOf(std::int64_t generation) const {
  return options_.place.directory + "/" + std::string(kPrefix) + std::to_string(generation) + ".sock";
}

// The newest process that listens is the present one; others, which a killed daemon left behind, finish their requests.
void Haproxy::Adopt() {
  for (LeftFront& left : FindLeft(options_.place.directory)) {
    generation_ = std::max(generation_, left.number);
    if (!left.process) {
      for (const std::string_view ending : kEndings) ::unlink((left.base + std::string(ending)).c_str());
      continue;
    }
    const std::int64_t pid = left.process->process().pid;
    auto known = std::make_shared<Process>(loop_, *std::move(left.process), left.number);
    known->config = ReadAll(left.base + ".cfg");
    known->slots = SlotsIn(known->config);
    known->is_started = true;
    Watch(known);
    if (current_ == nullptr && left.listens) {
      current_ = known;
      ports_.log(false, "event=front_adopted pid=" + std::to_string(pid));
      continue;
    }
    old_.insert(old_.begin(), known);
    if (left.listens) {
      known->process.Signal(SIGUSR1);
      continue;
    }
    // It stops already, or it starts. A process that is told to stop while it starts would keep its sockets.
    ports_.after(kStartsWithin, [weak = std::weak_ptr<Process>(known)] {
      if (const auto late = weak.lock()) late->process.Signal(SIGUSR1);
    });
  }
}

void Haproxy::EndLeft(const std::string& directory) {
  for (const LeftFront& left : FindLeft(directory)) {
    if (left.process && left.listens) left.process->Signal(SIGUSR1);
  }
}

Status Haproxy::Reserve(std::int64_t port) {
  if (reserved_.contains(port)) return {};
  std::vector<Descriptor> ends;
  // All of IPv6, because a client may try any IPv6 address of this machine first.
  const bool has_six = BoundTo("::", 0, SO_REUSEADDR).is_open();
  for (const std::string& host : {options_.place.listen_host, std::string(has_six ? "::" : "")}) {
    if (host.empty()) continue;
    // Another daemon of this user could share the port, because its sockets have SO_REUSEPORT, too.
    const std::string served = host == "::" ? "[" + options_.place.listen_host6 + "]" : host;
    const std::string bind = "  bind " + served + ":" + std::to_string(port);
    const bool is_own = current_ != nullptr && (current_->config.find(bind + "\n") != std::string::npos ||
                                                current_->config.find(bind + " ") != std::string::npos);
    const bool is_free = is_own || BoundTo(host, port, SO_REUSEADDR).is_open();
    // HAProxy's sockets have SO_REUSEPORT as well, and this one never listens.
    if (is_free) ends.push_back(BoundTo(host, port, SO_REUSEPORT));
    if (!is_free || !ends.back().is_open())
      return FailedPrecondition("port " + std::to_string(port) + " cannot be used on this machine (" + host + ": " +
                                std::strerror(errno) + "); choose another --port");
  }
  reserved_[port] = std::move(ends);
  return {};
}

void Haproxy::Release(std::int64_t port) { reserved_.erase(port); }

std::int64_t Haproxy::SlotsOf(const std::string& backend) const {
  if (current_ == nullptr) return 0;
  const auto found = current_->slots.find(backend);
  return found == current_->slots.end() ? 0 : found->second;
}

Status Haproxy::CheckFolder() const {
  const std::string socket = SocketOf(generation_ + 1);
  if (socket.size() <= kLongestSocket) return {};
  return FailedPrecondition("HAProxy cannot use the socket " + socket + ": its path has " +
                            std::to_string(socket.size()) + " characters, and HAProxy allows " +
                            std::to_string(kLongestSocket) + "; use a shorter DIVVY_HOME");
}

Status Haproxy::CheckChange(std::int64_t uid) const {
  const auto now = std::chrono::steady_clock::now();
  const auto is_counted = [&](const auto& old) {
    return old->replaced_by.contains(uid) && now - old->replaced_at < kCountsFor;
  };
  if (static_cast<std::size_t>(std::ranges::count_if(old_, is_counted)) < kMostOldOfUser) return {};
  return LimitExceeded("after your last " + std::to_string(kMostOldOfUser) +
                       " changes of services, requests that began before still run; try again when they have ended, "
                       "or in half an hour");
}

void Haproxy::Serve(const std::vector<FrontService>& services) {
  services_ = services;
  // A process that is told to stop while it starts would keep its sockets.
  if (current_ != nullptr && !current_->is_started) {
    current_->is_change_due = true;
    return;
  }
  if (services.empty()) {
    trouble_.clear();
    if (current_ == nullptr) return;
    current_->process.Signal(SIGUSR1);
    old_.push_back(std::exchange(current_, nullptr));
    return;
  }
  if (current_ != nullptr &&
      current_->config == HaproxyConfig(options_.place, SocketOf(current_->generation), services))
    return;
  if (current_ != nullptr &&
      (old_.size() >= kMostOld || std::chrono::steady_clock::now() - current_->since < kBetweenChanges)) {
    if (std::exchange(is_change_waiting_, true)) return;
    return ports_.after(std::chrono::milliseconds(500), [this, alive = is_alive_] {
      if (!*alive) return;
      is_change_waiting_ = false;
      Serve(std::vector(services_));
    });
  }
  StartProcess();
}

void Haproxy::StartProcess() {
  if (options_.program.empty()) {
    trouble_ =
        "HAProxy is not installed: install the package haproxy (apt-get install haproxy), or set haproxy = "
        "\"/path/to/haproxy\" in [services] of divvy.toml";
    return;
  }
  if (const Status usable = CheckFolder(); !usable) {
    trouble_ = usable.error().message;
    return;
  }
  const std::string folder = options_.place.directory;
  ::mkdir(folder.c_str(), 0700);
  const std::int64_t number = ++generation_;
  const std::string base = folder + "/" + std::string(kPrefix) + std::to_string(number);
  const std::string config = HaproxyConfig(options_.place, SocketOf(number), services_);
  Status written = ReplaceFile(folder + "/hold.lua", HoldScript(), 0600, "the front's script");
  if (written) written = ReplaceFile(base + ".cfg", config, 0600, "the front's configuration");
  if (!written) {
    trouble_ = written.error().message;
    return;
  }
  std::vector<std::string> words = {options_.program, "-q", "-db", "-f", base + ".cfg"};
  if (current_ != nullptr) words.insert(words.end(), {"-x", SocketOf(current_->generation)});
  if (current_ != nullptr) words.insert(words.end(), {"-sf", std::to_string(current_->process.process().pid)});
  Spawn spawn(Spawn::Apart::kSession);
  spawn.OpenNull(0).OpenNull(1).Open(2, folder + "/front.log", O_WRONLY | O_CREAT | O_TRUNC, 0600).CloseRest();
  // Open for reading, too, it needs no reader: without the daemon, HAProxy drops the lines when the pipe is full.
  spawn.Open(kFrontLogFd, RequestLogIn(folder), O_RDWR | O_NONBLOCK);
  const auto pid =
      options_.keeps_environment ? spawn.Start(options_.program, words) : spawn.Start(options_.program, words, {});
  if (!pid) {
    trouble_ = "cannot start " + options_.program + ": " + pid.error().message;
    return;
  }
  const auto stat = ReadGpuProcessStat(*pid);
  auto process = stat ? AdoptedProcess::Open({*pid, stat->start_ticks}) : Result<AdoptedProcess>(NotFound("it ended"));
  if (!process) {
    trouble_ = "cannot watch HAProxy: " + process.error().message;
    return;
  }
  const std::string identity = std::to_string(*pid) + " " + std::to_string(stat->start_ticks) + "\n";
  if (const Status kept = ReplaceFile(base + ".pid", identity, 0600, "the front's process"); !kept)
    ports_.log(true, "event=front_file error=\"" + kept.error().message + "\"");
  ports_.log(false, "event=front_started pid=" + std::to_string(*pid));
  if (current_ != nullptr) {
    current_->replaced_by = ChangedUsers(current_->services, services_);
    current_->replaced_at = std::chrono::steady_clock::now();
    old_.push_back(current_);
  }
  current_ = std::make_shared<Process>(loop_, *std::move(process), number);
  current_->config = config;
  current_->services = services_;
  current_->slots = SlotsIn(config);
  trouble_.clear();
  Watch(current_);
  ports_.on_fresh(true);
}

void Haproxy::Watch(const std::shared_ptr<Process>& process) {
  AwaitReadable(std::shared_ptr<asio::posix::stream_descriptor>(process, &process->ended),
                [this, process, alive = is_alive_] {
                  if (*alive) OnEnd(process);
                });
  if (process->is_started) return;
  process->ask_started = [this, known = std::weak_ptr<Process>(process), alive = is_alive_] {
    const auto starting = known.lock();
    if (!*alive || starting == nullptr || starting != current_) return;
    Ask({}, "show version", [this, starting](const Result<std::string>& answer) {
      if (starting != current_) return;
      if (!answer) return ports_.after(kStartLook, starting->ask_started);
      starting->is_started = true;
      if (std::exchange(starting->is_change_due, false)) Serve(std::vector(services_));
    });
  };
  ports_.after(kStartLook, process->ask_started);
}

void Haproxy::OnEnd(const std::shared_ptr<Process>& process) {
  int status = 0;
  ::waitpid(static_cast<pid_t>(process->process.process().pid), &status, WNOHANG);
  const std::string base = options_.place.directory + "/" + std::string(kPrefix) + std::to_string(process->generation);
  for (const std::string_view ending : kEndings) ::unlink((base + std::string(ending)).c_str());
  std::erase(old_, process);
  if (process != current_) return;
  current_ = nullptr;
  std::string log = ReadAll(options_.place.directory + "/front.log");
  while (!log.empty() && log.back() == '\n') log.pop_back();
  const std::size_t line = log.rfind('\n');
  const std::string last = OneLine(line == std::string::npos ? log : log.substr(line + 1));
  const bool was_stable = std::chrono::steady_clock::now() - process->since > kStable;
  quick_ends_ = was_stable ? 0 : quick_ends_ + 1;
  trouble_ = "HAProxy ended" + (last.empty() ? std::string() : ": " + last);
  ports_.log(true,
             "event=front_ended pid=" + std::to_string(process->process.process().pid) + " last=\"" + last + "\"");
  // If the ended process has never taken over the sockets, the process before it still has them.
  if (!old_.empty() && ListenerAt(SocketOf(old_.back()->generation)) != 0) {
    current_ = old_.back();
    old_.pop_back();
    ports_.on_fresh(false);
  }
  if (services_.empty()) return;
  const Duration pause =
      quick_ends_ < 3 ? Duration(0) : std::min<Duration>(100ms * (1 << std::min(quick_ends_, 6)), kLongestPause);
  ports_.after(pause, [this, alive = is_alive_] {
    if (*alive && !services_.empty()) Serve(std::vector(services_));
  });
}

void Haproxy::Ask(std::vector<std::string> commands, const std::string& last,
                  std::function<void(Result<std::string>)> done) {
  if (current_ == nullptr) {
    asio::post(loop_, [done = std::move(done), why = trouble_] { done(Unreachable("the front is down: " + why)); });
    return;
  }
  auto exchange = std::make_shared<Exchange>(loop_);
  exchange->path = SocketOf(current_->generation);
  std::string line;
  // A line that ended with ';' would have an empty command.
  const auto add = [&] {
    if (line.empty()) return;
    line.back() = '\n';
    exchange->lines.push_back(std::exchange(line, ""));
  };
  for (const std::string& command : commands) {
    if (line.size() + command.size() > kMostLine) add();
    line += command;
  }
  add();
  exchange->lines.push_back(last + "\n");
  exchange->done = [done = std::move(done), alive = is_alive_](Result<std::string> answer) {
    if (*alive) done(std::move(answer));
  };
  SendNext(exchange);
}

}  // namespace divvy
