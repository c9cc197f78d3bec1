// Measures a running server from outside; bench/table calls this program for each row of its table. Every measurement
// prints one line of numbers, separated by spaces, in the order given here:
//
//   serve_bench spawn COUNT THREADS                  -> processes/s: posix_spawn and wait of /bin/true, nothing else
//   serve_bench sync FOLDER COUNT                    -> appends/s, each made durable: the limit of the disk
//   serve_bench whole COUNT -- COMMAND...            -> p50 p99 in ms: the command from its start to its end
//   serve_bench seconds -- COMMAND...                -> seconds that the command takes, run once
//   serve_bench start FOLDER COUNT -- COMMAND...     -> p50 p99 in ms: start of the command to start of its job
//   serve_bench jobs FOLDER COUNT CLIENTS -- COMMAND...
//                                                    -> jobs/s: COUNT commands, start of the first to start of last job
//   serve_bench once FOLDER COUNT -- COMMAND...      -> jobs/s: one command that starts COUNT jobs
//   serve_bench submit COUNT CLIENTS -- COMMAND...   -> commands/s
//   serve_bench api SOCKET COUNT VARIABLES IN_FLIGHT -> submissions/s on one connection, pipelined, each answered
//   serve_bench array SOCKET ELEMENTS                -> elements/s of one request, until it is answered
//   serve_bench handover FILE                        -> p50 p99 in ms, count: end of a job to next start on that GPU
//   serve_bench process PID SECONDS                  -> MiB resident, percent of one CPU over SECONDS
//
// In COMMAND, "{job}" becomes bench/stamp with the file that it writes to, "{n}" becomes COUNT and "{last}" COUNT - 1.
// The FILE of handover must exist: jobs that ran `bench/stamp FILE MILLISECONDS` have written to it when each began and
// ended, and on which GPU.
// Commands get /dev/null as input and output. This is not a test: slow results do not fail.
#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "cli/client/http_client.h"
#include "wire/messages/codec.h"

namespace divvy {
namespace {

using Words = std::vector<std::string>;
using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kStampBytes = 32;
constexpr auto kPatience = std::chrono::minutes(2);

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "serve_bench: %s\n", why.c_str());
  std::exit(1);
}

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

// Returns the time of the clock that the stamps use.
std::int64_t WallNanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

double Quantile(std::vector<double> values, double quantile) {
  if (values.empty()) Die("nothing was measured");
  const auto at = std::min(values.size() - 1, static_cast<std::size_t>(quantile * static_cast<double>(values.size())));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

void PrintMilliseconds(const std::vector<double>& milliseconds) {
  std::printf("%.3f %.3f\n", Quantile(milliseconds, 0.5), Quantile(milliseconds, 0.99));
}

void RunToEnd(const Words& words, bool is_bare = false) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  static posix_spawn_file_actions_t* const actions = [] {
    static posix_spawn_file_actions_t made;
    ::posix_spawn_file_actions_init(&made);
    ::posix_spawn_file_actions_addopen(&made, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_addopen(&made, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    return &made;
  }();
  pid_t pid = -1;
  if (::posix_spawnp(&pid, argv[0], is_bare ? nullptr : actions, nullptr, argv.data(), environ) != 0)
    Die("cannot start " + words[0]);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) Die(words[0] + " failed (status " + std::to_string(status) + ")");
}

// Calls `work` `count` times in total, from `threads` threads in parallel.
template <typename Work>
void Repeat(int count, int threads, const Work& work) {
  std::atomic<int> left = count;
  std::vector<std::thread> pool;
  for (int i = 0; i < threads; ++i) {
    pool.emplace_back([&] {
      while (left-- > 0) work();
    });
  }
  for (std::thread& thread : pool) thread.join();
}

// The file that the jobs write stamps to. Fill() inserts it into the command.
class Stamps {
 public:
  Stamps(const std::string& folder, bool is_pipe)
      : path_(folder + "/stamps." + std::to_string(::getpid())), is_pipe_(is_pipe) {
    ::unlink(path_.c_str());
    if (is_pipe && ::mkfifo(path_.c_str(), 0666) != 0) Die("cannot make the pipe " + path_);
    // The pipe is kept open for writing as well, so that a read waits for the next job instead of seeing an end.
    fd_ = ::open(path_.c_str(), is_pipe ? O_RDWR | O_CLOEXEC : O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd_ < 0) Die("cannot open " + path_);
  }
  ~Stamps() {
    ::close(fd_);
    ::unlink(path_.c_str());
  }

  Words Fill(const Words& words, int count) const {
    char self[PATH_MAX] = "";
    if (::readlink("/proc/self/exe", self, sizeof self - 1) < 0) Die("/proc is missing");
    const std::string program(self);
    Words filled;
    for (const std::string& word : words) {
      if (word == "{job}") {
        filled.push_back(program.substr(0, program.rfind('/')) + "/stamp");
        filled.push_back(path_);
      } else if (const auto at = word.find("{last}"); at != std::string::npos) {
        filled.push_back(word.substr(0, at) + std::to_string(count - 1) + word.substr(at + 6));
      } else {
        filled.push_back(word == "{n}" ? std::to_string(count) : word);
      }
    }
    return filled;
  }

  // Returns the time in the next stamp. Waits without taking CPU time from the job. Works only with a pipe.
  std::int64_t Next() const {
    char line[kStampBytes];
    if (::read(fd_, line, sizeof line) != static_cast<ssize_t>(sizeof line)) Die("cannot read " + path_);
    return std::atoll(line + 2);
  }

  // Waits for `count` jobs and returns the time at which the last one began.
  std::int64_t LastOf(int count) const {
    const auto start = SteadyClock::now();
    struct stat status {};
    while (::fstat(fd_, &status) == 0 && status.st_size < static_cast<off_t>(kStampBytes) * count) {
      if (SteadyClock::now() - start > kPatience)
        Die("only " + std::to_string(status.st_size / static_cast<off_t>(kStampBytes)) + " of " +
            std::to_string(count) + " jobs began");
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    std::int64_t last = 0;
    std::ifstream file(path_);
    char kind = 0;
    std::string gpu;
    for (std::int64_t at = 0; file >> kind >> at >> gpu;) last = std::max(last, at);
    return last;
  }

 private:
  std::string path_;
  bool is_pipe_;
  int fd_;
};

void Spawn(int count, int threads) {
  const auto start = SteadyClock::now();
  Repeat(count, threads, [] { RunToEnd({"/bin/true"}, true); });
  std::printf("%.0f\n", count / SecondsSince(start));
}

// Writes blocks of the size of a one-job commit. The file is filled in advance, like the store's log after its first
// lap.
void Sync(const std::string& folder, int count) {
  constexpr off_t kBytes = 4096;
  const std::string path = folder + "/sync." + std::to_string(::getpid());
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) Die("cannot write to " + folder);
  const std::string block(kBytes, 'x');
  for (int i = 0; i < count; ++i) static_cast<void>(!::pwrite(fd, block.data(), block.size(), kBytes * i));
  ::fsync(fd);
  const auto start = SteadyClock::now();
  for (int i = 0; i < count; ++i) {
    static_cast<void>(!::pwrite(fd, block.data(), block.size(), kBytes * i));
    if (::fdatasync(fd) != 0) Die("fdatasync fails in " + folder);
  }
  std::printf("%.0f\n", count / SecondsSince(start));
  ::close(fd);
  ::unlink(path.c_str());
}

void Whole(int count, const Words& command) {
  std::vector<double> milliseconds;
  RunToEnd(command);
  for (int i = 0; i < count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10 + i % 7));
    const auto start = SteadyClock::now();
    RunToEnd(command);
    milliseconds.push_back(SecondsSince(start) * 1e3);
  }
  PrintMilliseconds(milliseconds);
}

void Seconds(const Words& command) {
  const auto start = SteadyClock::now();
  RunToEnd(command);
  std::printf("%.3f\n", SecondsSince(start));
}

void Start(const std::string& folder, int count, const Words& words) {
  const Stamps stamps(folder, true);
  const Words command = stamps.Fill(words, count);
  std::vector<double> milliseconds;
  for (int i = 0; i <= count; ++i) {
    // Lets the server become idle again. The pause varies so that it is not in step with anything periodic.
    std::this_thread::sleep_for(std::chrono::milliseconds(20 + i % 7));
    const std::int64_t start = WallNanoseconds();
    RunToEnd(command);
    const double took = static_cast<double>(stamps.Next() - start) / 1e6;
    if (i > 0) milliseconds.push_back(took);
  }
  PrintMilliseconds(milliseconds);
}

void Jobs(const std::string& folder, int count, int clients, int commands, const Words& words) {
  const Stamps stamps(folder, false);
  const Words command = stamps.Fill(words, count);
  const std::int64_t start = WallNanoseconds();
  Repeat(commands, clients, [&] { RunToEnd(command); });
  std::printf("%.0f\n", count / (static_cast<double>(stamps.LastOf(count) - start) / 1e9));
}

void Submit(int count, int clients, const Words& command) {
  const auto start = SteadyClock::now();
  Repeat(count, clients, [&] { RunToEnd(command); });
  std::printf("%.0f\n", count / SecondsSince(start));
}

std::string SubmissionText(const std::string& body) {
  return "POST /v1/jobs HTTP/1.1\r\nHost: divvy\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n" + body;
}

wire::SubmitRequest UsualRequest(int variables) {
  wire::SubmitRequest request;
  request.spec.command = {"python", "train.py", "--epochs", "90"};
  request.spec.directory = "/tmp";
  request.spec.request.gpus = 1;
  for (int i = 0; i < variables; ++i)
    request.spec.capture.environment.push_back("VARIABLE_" + std::to_string(i) + "=" + std::string(40, 'x'));
  return request;
}

HttpClient ConnectTo(const std::string& socket) {
  auto client = HttpClient::Connect(socket);
  if (!client) Die(client.error().message);
  return *std::move(client);
}

void Take(HttpClient& client, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    const auto answer = client.Receive();
    if (!answer) Die(answer.error().message);
    if (answer->status != 200) Die("refused: " + answer->body);
  }
}

// Sends half of IN_FLIGHT requests at a time. With IN_FLIGHT 1, waits for each answer before the next request.
void Api(const std::string& socket, int count, int variables, int in_flight) {
  HttpClient client = ConnectTo(socket);
  const std::string one = SubmissionText(wire::EncodeChanged(UsualRequest(variables)));
  const auto at_once = static_cast<std::size_t>(std::max(in_flight / 2, 1));
  std::string text;
  for (std::size_t i = 0; i < at_once; ++i) text += one;
  const std::size_t rounds = std::max<std::size_t>(static_cast<std::size_t>(count) / at_once, 2);
  std::size_t unanswered = 0;
  const auto start = SteadyClock::now();
  for (std::size_t i = 0; i < rounds; ++i) {
    if (const Status sent = client.SendText(text); !sent) Die(sent.error().message);
    unanswered += at_once;
    if (unanswered < static_cast<std::size_t>(in_flight)) continue;
    Take(client, at_once);
    unanswered -= at_once;
  }
  Take(client, unanswered);
  std::printf("%.0f\n", static_cast<double>(rounds * at_once) / SecondsSince(start));
}

void Array(const std::string& socket, std::uint32_t elements) {
  HttpClient client = ConnectTo(socket);
  wire::SubmitRequest request = UsualRequest(0);
  request.spec.array = ArraySpec{IndexRanges(0, elements - 1), 0};
  const std::string text = SubmissionText(wire::EncodeChanged(request));
  const auto start = SteadyClock::now();
  if (const Status sent = client.SendText(text); !sent) Die(sent.error().message);
  Take(client, 1);
  std::printf("%.0f\n", elements / SecondsSince(start));
}

void Handover(const std::string& path) {
  std::ifstream file(path);
  std::map<std::string, std::vector<std::pair<std::int64_t, char>>> per_gpu;
  char kind = 0;
  std::int64_t at = 0;
  for (std::string gpu; file >> kind >> at >> gpu;) per_gpu[gpu].emplace_back(at, kind);
  std::vector<double> milliseconds;
  for (auto& [gpu, stamps] : per_gpu) {
    std::ranges::sort(stamps);
    for (std::size_t i = 1; i < stamps.size(); ++i) {
      if (stamps[i].second == stamps[i - 1].second) Die("GPU " + gpu + " had two jobs at once");
      if (stamps[i].second == 'S')
        milliseconds.push_back(static_cast<double>(stamps[i].first - stamps[i - 1].first) / 1e6);
    }
  }
  std::printf("%.3f %.3f %zu\n", Quantile(milliseconds, 0.5), Quantile(milliseconds, 0.99), milliseconds.size());
}

// Returns the nanoseconds on a CPU of all threads that live now. From the scheduler's own count, because /proc/PID/stat
// has a resolution of 10 ms.
std::int64_t CpuNanoseconds(const std::string& process) {
  std::int64_t sum = 0;
  const std::string tasks = process + "/task";
  DIR* folder = ::opendir(tasks.c_str());
  if (folder == nullptr) Die("there is no " + process);
  while (const dirent* task = ::readdir(folder)) {
    std::int64_t on_cpu = 0;
    if (std::ifstream(tasks + "/" + task->d_name + "/schedstat") >> on_cpu) sum += on_cpu;
  }
  ::closedir(folder);
  return sum;
}

void Process(const std::string& pid, int seconds) {
  const std::string process = "/proc/" + pid;
  const auto start = SteadyClock::now();
  const std::int64_t before = CpuNanoseconds(process);
  std::this_thread::sleep_for(std::chrono::seconds(seconds));
  const double spent = static_cast<double>(CpuNanoseconds(process) - before) / 1e9;
  double pages = 0;
  std::ifstream(process + "/statm") >> pages >> pages;
  const double percent = seconds > 0 ? 100 * spent / SecondsSince(start) : 0;
  std::printf("%.1f %.3f\n", pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20), percent);
}

int Main(Words words) {
  Words command;
  if (const auto dashes = std::ranges::find(words, "--"); dashes != words.end()) {
    command.assign(dashes + 1, words.end());
    words.erase(dashes, words.end());
  }
  const auto number = [&](std::size_t at) { return std::atoi(words[at].c_str()); };
  const auto is = [&](std::string_view name, std::size_t arguments, bool has_command) {
    return !words.empty() && words[0] == name && words.size() == arguments + 1 && command.empty() != has_command;
  };
  if (is("spawn", 2, false)) return Spawn(number(1), number(2)), 0;
  if (is("sync", 2, false)) return Sync(words[1], number(2)), 0;
  if (is("whole", 1, true)) return Whole(number(1), command), 0;
  if (is("seconds", 0, true)) return Seconds(command), 0;
  if (is("start", 2, true)) return Start(words[1], number(2), command), 0;
  if (is("jobs", 3, true)) return Jobs(words[1], number(2), number(3), number(2), command), 0;
  if (is("once", 2, true)) return Jobs(words[1], number(2), 1, 1, command), 0;
  if (is("submit", 2, true)) return Submit(number(1), number(2), command), 0;
  if (is("api", 4, false)) return Api(words[1], number(2), number(3), number(4)), 0;
  if (is("array", 2, false)) return Array(words[1], static_cast<std::uint32_t>(number(2))), 0;
  if (is("handover", 1, false)) return Handover(words[1]), 0;
  if (is("process", 2, false)) return Process(words[1], number(2)), 0;
  std::fprintf(stderr, "serve_bench: no such measurement; the first comment of bench/serve_bench.cc lists them\n");
  return 2;
}

}  // namespace
}  // namespace divvy

int main(int argc, char** argv) { return divvy::Main({argv + 1, argv + argc}); }
