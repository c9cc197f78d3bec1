// A PostgreSQL server of a test's own, from Debian's package postgresql-15: installed, or unpacked below
// build/unpacked. It listens on a socket in its folder only, and ends with the object.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "store/postgres/postgres_library.h"
#include "store/store_test_support.h"

namespace divvy {

class TestServer {
 public:
  /// The folder of initdb and postgres; "" if they are not there.
  static std::string Programs() {
    std::vector<std::string> places = {std::string(DIVVY_SOURCE_DIR) + "/build/unpacked/usr/lib/postgresql/15/bin",
                                       "/usr/lib/postgresql/15/bin"};
    if (const char* const given = std::getenv("DIVVY_POSTGRES")) places.insert(places.begin(), given);
    for (const std::string& place : places) {
      if (::access((place + "/initdb").c_str(), X_OK) == 0 && ::access((place + "/postgres").c_str(), X_OK) == 0)
        return place;
    }
    return "";
  }

  /// Why no server can run here; "" if one can.
  static std::string Missing() {
    if (Programs().empty()) return "needs Debian's package postgresql-15; scripts/test unpacks it";
    if (!MayRun(Programs() + "/postgres")) return "user 65534 cannot run " + Programs() + "/postgres";
    if (const auto library = LoadLibPq(); !library) return library.error().message;
    return "";
  }

  /// PostgreSQL refuses to run as root.
  static constexpr uid_t kUid = 65'534;

  TestServer() {
    ::chmod(folder_.File("").c_str(), 0755);
    Own(folder_.File("socket"));
    Own(folder_.File("data"));
    const int status = Wait(Start({Programs() + "/initdb", "--pgdata=" + folder_.File("data"), "--username=divvy",
                                   "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"}));
    DIVVY_ASSERT(status == 0);
    Run();
  }
  ~TestServer() { Kill(SIGINT); }
  TestServer(const TestServer&) = delete;
  TestServer& operator=(const TestServer&) = delete;

  /// Starts the server and returns when it accepts connections.
  void Run(const std::vector<std::string>& options = {}) {
    std::vector<std::string> words = {
        Programs() + "/postgres", "-D", folder_.File("data"), "-h", "", "-k", folder_.File("socket"), "-F", "-c",
        "max_connections=40"};
    words.insert(words.end(), options.begin(), options.end());
    pid_ = Start(words);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (std::chrono::steady_clock::now() < end && !AcceptsConnections()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      // After kill -9, the next server refuses to start until all processes of the old one have ended.
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) pid_ = Start(words);
    }
  }
  /// Ends the server. SIGKILL and SIGQUIT are like a crash: the next start recovers the database. SIGINT is an orderly
  /// end.
  void Kill(int signal) {
    if (pid_ <= 0) return;
    ::kill(pid_, signal);
    Wait(pid_);
    pid_ = -1;
  }

  /// The URL of a database of this name, which is created if necessary.
  std::string Url(const std::string& database) {
    Execute("postgres", "CREATE DATABASE " + database);
    return UrlOf(database);
  }
  std::string UrlOf(const std::string& database) const {
    return "postgresql://divvy@/" + database + "?host=" + folder_.File("socket");
  }
  /// Runs SQL as the superuser; errors are ignored.
  bool Execute(const std::string& database, const std::string& sql) {
    const LibPq& pq = **LoadLibPq();
    const std::string url = UrlOf(database);
    const char* const keywords[] = {"dbname", nullptr};
    const char* const values[] = {url.c_str(), nullptr};
    pg_conn* const connection = pq.connectdbParams(keywords, values, 1);
    bool done = pq.status(connection) == pq::kConnectionOk && pq.sendQuery(connection, sql.c_str()) != 0;
    while (pg_result* const result = done ? pq.getResult(connection) : nullptr) {
      done = pq.resultStatus(result) == pq::kCommandOk || pq.resultStatus(result) == pq::kTuplesOk;
      pq.clear(result);
      if (!done) break;
    }
    pq.finish(connection);
    return done;
  }
  std::string File(const std::string& name) const { return folder_.File(name); }

 private:
  /// Whether the server's user can reach the file.
  static bool MayRun(const std::string& program) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit((::geteuid() != 0 || ::setuid(kUid) == 0) && ::access(program.c_str(), X_OK) == 0 ? 0 : 1);
    return Wait(child) == 0;
  }
  static void Own(const std::string& path) {
    ::mkdir(path.c_str(), 0700);
    if (::geteuid() == 0) DIVVY_ASSERT(::chown(path.c_str(), kUid, kUid) == 0);
  }
  bool AcceptsConnections() { return Execute("postgres", "SELECT 1"); }
  pid_t Start(const std::vector<std::string>& words) {
    const pid_t child = ::fork();
    if (child != 0) return child;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::geteuid() == 0 && (::setgid(kUid) != 0 || ::setuid(kUid) != 0)) ::_exit(1);
    ::prctl(PR_SET_PDEATHSIG, SIGQUIT);  // Changing the user cleared it.
    const int log = ::open(folder_.File("socket/log").c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    ::dup2(log, STDOUT_FILENO);
    ::dup2(log, STDERR_FILENO);
    ::setenv("LC_ALL", "C", 1);
    std::vector<char*> arguments;
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    ::chdir("/");
    ::execv(arguments[0], arguments.data());
    ::_exit(127);
  }
  static int Wait(pid_t child) {
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
  }

  TemporaryFolder folder_;
  pid_t pid_ = -1;
};

}  // namespace divvy
