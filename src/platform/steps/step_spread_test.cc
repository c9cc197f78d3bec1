// Tests step processes of one job on several nodes: here processes of one machine that connect over loopback.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>

#include "base/text.h"
#include "model/steps/task_layout.h"
#include "platform/net/tcp.h"
#include "platform/os/process_tree.h"
#include "platform/records/step_list_file.h"
#include "platform/steps/step_client.h"
#include "platform/steps/step_server.h"

extern char** environ;

namespace divvy {
namespace step_spread_test {

const std::string kKey(64, 'a');

std::string Slurp(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Nodes m0, m1, ...; each reads the ports of the others from a file.
struct Machine {
  std::filesystem::path folder;
  std::size_t own = 0;
};

/// Arguments of a step: flags (k: kills on a bad exit, o: outlives nodes, l: labels, f: output to the file "all", g:
/// needs a GPU on each node, e: node 1 gets the signal to start only after a file "gone" exists), a layout, and a
/// script that gets RANK and MACHINE.
Result<StepPlan> PlanOf(const Machine& machine, StepCall& call) {
  if (call.words.size() != 4) return InvalidArgument("t: four words, please");
  const std::string flags = call.words[1];
  const auto has = [flags](char flag) { return flags.find(flag) != std::string::npos; };
  const auto layout = ReadLayout(call.part ? call.part->layout : call.words[2]);
  if (!layout) return InvalidArgument("t: no layout");
  StepPlan plan;
  plan.name = "17";
  plan.program = "t";
  plan.host = "m" + std::to_string(machine.own);
  plan.command = call.words[3];
  plan.busy = "t: busy";
  plan.directory = call.directory;
  plan.has_labels = has('l');
  plan.kills_on_bad_exit = has('k');
  plan.outlives_nodes = has('o');
  plan.tasks = static_cast<std::size_t>(layout->tasks());
  if (has('g')) plan.need.gpus = 1;
  for (const TaskLayout::Machine& one : layout->machines) {
    if (!call.part) plan.machines.push_back({one.node_index, one.tasks, {}});
  }
  plan.gpus_of = [own = machine.own](const std::vector<std::size_t>& gpus) {
    std::string out;  // Node 1 has GPUs 2 and 3.
    for (const std::size_t gpu : gpus) out += (out.empty() ? "" : ",") + std::to_string(gpu + 2 * own);
    return out;
  };
  if (has('e') && machine.own == 1 && !std::filesystem::exists(machine.folder / "gone")) {
    std::ofstream(machine.folder / "asked") << "early";
    return Unreachable("t: too early");
  }
  if (has('r') && machine.own == 1) return InvalidArgument("t: not me");
  const auto ranks = layout->Ranks();
  const auto own = layout->Find(machine.own);
  SpreadPlan spread;
  spread.has_own = own.has_value();
  spread.layout = LayoutText(*layout);
  spread.reserves = has('g');
  if (has('f')) spread.files[0] = {StepStream::Kind::kFile, "all", true};
  if (has('f')) spread.files[1] = {StepStream::Kind::kOutput, "", false};
  for (std::size_t i = 0; i < layout->machines.size(); ++i) {
    const std::size_t node_index = layout->machines[i].node_index;
    if (node_index == machine.own) continue;
    if (node_index < machine.own) ++spread.own_place;
    const auto port = ParseInteger(Trim(Slurp(machine.folder / ("port" + std::to_string(node_index)))));
    PartPlan part{"m" + std::to_string(node_index), {"127.0.0.1", static_cast<std::uint16_t>(port.value_or(0))}, {}};
    part.ranks.assign(ranks[i].begin(), ranks[i].end());
    spread.others.push_back(std::move(part));
  }
  if (layout->machines.front().node_index != machine.own) spread.input_rank = 0;
  if (!call.part) plan.spread = std::move(spread);
  std::vector<std::size_t> mine;
  if (own) mine.assign(ranks[*own].begin(), ranks[*own].end());
  plan.make = [=, is_part = call.part.has_value(), environment = call.environment, directory = call.directory,
               script = call.words[3]](StepNumber, const std::vector<std::size_t>&) -> Result<StepTasks> {
    StepTasks out;
    out.ranks = mine;
    for (const std::size_t rank : mine) {
      StepTask task;
      task.command = {"sh", "-c", script};
      task.environment = environment;
      task.environment.push_back("RANK=" + std::to_string(rank));
      task.environment.push_back("MACHINE=" + std::to_string(machine.own));
      task.directory = directory;
      task.streams[0].kind = rank == 0 ? StepStream::Kind::kCaller : StepStream::Kind::kNothing;
      if (has('f') && !is_part) {
        task.streams[1] = {StepStream::Kind::kFile, "all", false};
        task.streams[2].kind = StepStream::Kind::kOutput;
      } else if (is_part || has('l')) {
        task.streams[1].kind = task.streams[2].kind = StepStream::Kind::kLabelled;
      }
      if (is_part && rank == 0) task.streams[0].kind = StepStream::Kind::kLabelled;
      out.tasks.push_back(std::move(task));
    }
    return out;
  };
  return plan;
}

class StepSpreadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "divvy-spread-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    for (std::size_t machine = 0; machine < servers_.size(); ++machine) Serve(machine, kKey);
  }
  void TearDown() override {
    for (const pid_t server : servers_) {
      if (server <= 0) continue;
      ::kill(server, SIGKILL);
      ::waitpid(server, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }

  std::string file(std::size_t machine) const { return folder_ / ("17-" + std::to_string(machine)); }
  std::uint16_t port(std::size_t machine) const {
    return static_cast<std::uint16_t>(
        ParseInteger(Trim(Slurp(folder_ / ("port" + std::to_string(machine))))).value_or(0));
  }

  void Serve(std::size_t machine, const std::string& key, const std::string& version = "1") {
    std::array<int, 2> ready{};
    ASSERT_EQ(::pipe(ready.data()), 0);
    servers_[machine] = ::fork();
    if (servers_[machine] == 0) {
      StepServerOptions options{.file = file(machine), .gpus = 2, .cores = 0};
      const Machine own{folder_, machine};
      options.planner = [own](StepCall& call) { return PlanOf(own, call); };
      options.key = key;
      options.listen = {"127.0.0.1", 0};
      options.version = version;
      options.look_every = std::chrono::milliseconds(10);
      options.on_listening = [&](std::uint16_t port) {
        std::ofstream(folder_ / ("port" + std::to_string(machine))) << port << "\n";
        static_cast<void>(!::write(ready[1], "y", 1));
      };
      ::_exit(RunStepServer(std::move(options)));
    }
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  void Stop(std::size_t machine, int signal = SIGKILL) {
    ::kill(servers_[machine], signal);
    ::waitpid(servers_[machine], nullptr, 0);
    servers_[machine] = -1;
  }

  /// Calls on node 0 (or `machine`), in a child with its output in `name`.
  pid_t Call(const std::string& name, const std::string& flags, const std::string& layout, const std::string& script,
             int input = -1, std::size_t machine = 0) {
    const pid_t pid = ::fork();
    if (pid != 0) return pid;
    ::setpgid(0, 0);
    const int out = ::open((folder_ / name).c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
    const int in = input >= 0 ? input : ::open("/dev/null", O_RDONLY);
    ::dup2(in, 0);
    ::dup2(out, 1);
    ::dup2(out, 2);
    static_cast<void>(!::chdir(folder_.c_str()));
    const std::array<const char*, 4> words = {"t", flags.c_str(), layout.c_str(), script.c_str()};
    const auto code = CallStep({StepSocketOf(file(machine)), words, environ, "t", true});
    ::_exit(code.value_or(99));
  }
  static int End(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
  }
  int Run(const std::string& flags, const std::string& layout, const std::string& script) {
    return End(Call("out", flags, layout, script));
  }
  std::string Out(const std::string& name = "out") const { return Slurp(folder_ / name); }
  std::vector<std::string> SortedLines(const std::string& name = "out") const {
    std::vector<std::string> lines;
    const std::string text = Out(name);
    for (const std::string_view line : Split(Trim(text), '\n')) lines.emplace_back(line);
    std::ranges::sort(lines);
    return lines;
  }

  void Await(const std::function<bool()>& condition) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "output so far: " << Out();
      ::poll(nullptr, 0, 2);
    }
  }
  void AwaitText(const std::string& name, const std::string& text) const {
    Await([&] { return Out(name).find(text) != std::string::npos; });
  }
  /// The script of a task that keeps running, and writes its pid for AwaitGone.
  static std::string Staying() { return "echo $$ >pid$RANK; echo up$RANK; exec sleep 60"; }
  void AwaitGone(int rank) const {
    const auto pid = ParseInteger(Trim(Slurp(folder_ / ("pid" + std::to_string(rank)))));
    ASSERT_TRUE(pid);
    Await([&] {
      const auto status = ReadProcessStat(static_cast<pid_t>(*pid));
      return !status || status->state == 'Z';
    });
  }

  std::filesystem::path folder_;
  std::array<pid_t, 3> servers_ = {-1, -1, -1};
};

using Lines = std::vector<std::string>;

TEST_F(StepSpreadTest, TasksRunOnAllNodesWithGlobalRanks) {
  EXPECT_EQ(Run("", "block 0:1,1:2,2:1", "echo $RANK on $MACHINE"), 0);
  EXPECT_EQ(SortedLines(), (Lines{"0 on 0", "1 on 1", "2 on 1", "3 on 2"}));
  EXPECT_EQ(End(Call("b", "", "cyclic 0:1,1:2", "echo $RANK on $MACHINE")), 0);
  EXPECT_EQ(SortedLines("b"), (Lines{"0 on 0", "1 on 1", "2 on 1"}));
  EXPECT_EQ(End(Call("c", "", "block 1:1", "echo $RANK on $MACHINE")), 0) << "none on the caller's own";
  EXPECT_EQ(SortedLines("c"), (Lines{"0 on 1"}));
}

TEST_F(StepSpreadTest, TheStepListShowsNodesAndGpusOfAStep) {
  EXPECT_EQ(Run("", "block 0:1,1:2", "true"), 0);
  EXPECT_EQ(Run("g", "block 1:1,2:1", "true"), 0);
  EXPECT_EQ(Run("", "block 0:1", "true"), 0);
  const auto steps = ReadStepListFile(file(0));
  ASSERT_EQ(steps.size(), 3u);
  EXPECT_EQ(steps[0].gpus, "0,1");
  EXPECT_EQ(steps[0].machines, (std::vector<StepMachine>{{0, 1, GpuSet::Of({0, 1})}, {1, 2, GpuSet::Of({2, 3})}}));
  EXPECT_EQ(steps[1].gpus, "");
  EXPECT_EQ(steps[1].machines, (std::vector<StepMachine>{{1, 1, GpuSet::Of({2})}, {2, 1, GpuSet::Of({4})}}));
  EXPECT_EQ(steps[2].machines, (std::vector<StepMachine>{{0, 1, GpuSet::Of({0, 1})}}));
}

TEST_F(StepSpreadTest, EndsWithItsTasksWhenItsListIsRemoved) {
  const pid_t caller = Call("out", "", "block 0:1,1:1", Staying());
  AwaitText("out", "up0");
  AwaitText("out", "up1");
  for (std::size_t machine = 0; machine < servers_.size(); ++machine) {
    std::filesystem::remove(file(machine));
    ::waitpid(std::exchange(servers_[machine], -1), nullptr, 0);
  }
  AwaitGone(0);
  AwaitGone(1);
  End(caller);
}

TEST_F(StepSpreadTest, AStepCalledBeforeTheGoSignalWaitsForIt) {
  const pid_t caller = Call("out", "e", "block 0:1,1:1", "echo $RANK on $MACHINE");
  Await([&] { return std::filesystem::exists(folder_ / "asked"); });
  std::ofstream(folder_ / "gone") << "now";
  EXPECT_EQ(End(caller), 0);
  EXPECT_EQ(SortedLines(), (Lines{"0 on 0", "1 on 1"}));
}

TEST_F(StepSpreadTest, StepsCanBeStartedOnAnyNode) {
  EXPECT_EQ(End(Call("out", "", "block 0:1,2:1", "echo $RANK on $MACHINE", -1, 2)), 0);
  EXPECT_EQ(SortedLines(), (Lines{"0 on 0", "1 on 2"}));
}

TEST_F(StepSpreadTest, ANodeListsStepsStartedElsewhereLikeTheirCallersNode) {
  EXPECT_EQ(End(Call("out", "", "block 0:1,2:1", "exit $(( RANK * 3 ))", -1, 2)), 3);
  Await([&] {
    const auto steps = ReadStepListFile(file(0));
    return steps.size() == 1 && steps[0].code == 3;
  });
  const std::vector<StepMachine> machines = {{0, 1, GpuSet::Of({0, 1})}, {2, 1, GpuSet::Of({4, 5})}};
  for (const std::size_t machine : {0, 2}) {
    const auto steps = ReadStepListFile(file(machine));
    EXPECT_EQ(steps[0].code, 3);
    EXPECT_EQ(steps[0].tasks, 2);
    EXPECT_EQ(steps[0].machines, machines);
  }
}

TEST_F(StepSpreadTest, WithoutTheCallersStepProcessANodeReportsItsOwnTasks) {
  const pid_t caller = Call("out", "", "block 0:1", Staying(), -1, 2);
  AwaitText("out", "up0");
  Stop(2);
  End(caller);
  Await([&] {
    const auto steps = ReadStepListFile(file(0));
    return steps.size() == 1 && steps[0].state == StepState::kEnded;
  });
  EXPECT_EQ(ReadStepListFile(file(0))[0].code, 128 + SIGTERM);
}

TEST_F(StepSpreadTest, TheHighestExitCodeCountsAndFailuresNameTheirNode) {
  EXPECT_EQ(Run("", "block 0:1,1:2", "exit $RANK"), 2);
  EXPECT_EQ(SortedLines(),
            (Lines{"t: error: m1: task 1: Exited with exit code 1", "t: error: m1: task 2: Exited with exit code 2"}));
  EXPECT_EQ(End(Call("b", "", "block 0:1,1:1", "test $RANK = 0 || kill -9 $$")), 137);
  EXPECT_EQ(Out("b"), "t: error: m1: task 1: Killed\n");
}

TEST_F(StepSpreadTest, ABadExitOnAnyNodeEndsAllTasksOnRequest) {
  EXPECT_EQ(Run("k", "block 0:1,1:1,2:1", "test $RANK = 1 && exit 7; exec sleep 60"), 143);
  EXPECT_NE(Out().find("t: error: m1: task 1: Exited with exit code 7\nt: Terminating StepId=17.0\n"),
            std::string::npos)
      << Out();
}

TEST_F(StepSpreadTest, AllOutputArrivesInOrder) {
  const std::string script = "i=0; while [ $i -lt 20000 ]; do echo $RANK line $i; i=$((i+1)); done";
  EXPECT_EQ(Run("", "block 1:1,2:1", script), 0);
  const std::string text = Out();
  std::array<int, 2> next = {0, 0};
  EXPECT_EQ(std::ranges::count(text, '\n'), 40'000);
  EXPECT_EQ(End(Call("b", "l", "block 1:1,2:1", script)), 0);
  const std::string labelled = Out("b");
  for (const std::string_view line : Split(Trim(labelled), '\n')) {
    const auto words = SplitWords(line);
    ASSERT_EQ(words.size(), 4u) << line;
    const std::size_t rank = words[0] == "0:" ? 0 : 1;
    ASSERT_EQ(words[3], std::to_string(next[rank])) << line;
    ++next[rank];
  }
  EXPECT_EQ(next, (std::array<int, 2>{20'000, 20'000}));
}

TEST_F(StepSpreadTest, ACallerThatDoesNotReadBlocksTheTasksWithoutDataLoss) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const pid_t caller = ::fork();
  if (caller == 0) {
    ::dup2(pipe[1], 1);
    static_cast<void>(!::chdir(folder_.c_str()));
    const std::array<const char*, 4> words = {
        "t", "", "block 1:1", "dd if=/dev/zero bs=1M count=32 2>/dev/null & echo $! >writer; wait; echo done >wrote"};
    ::_exit(CallStep({StepSocketOf(file(0)), words, environ, "t", true}).value_or(99));
  }
  ::close(pipe[1]);
  // Waits until the buffers are full and the task blocks.
  std::size_t seen = 0;
  std::array<char, 65'536> buffer;
  std::string written;
  int same = 0;
  Await([&] {
    const std::string now = Slurp("/proc/" + std::string(Trim(Out("writer"))) + "/io");
    same = now == written && now.find("wchar: 0\n") == std::string::npos ? same + 1 : 0;
    written = now;
    return same > 50 || std::filesystem::exists(folder_ / "wrote");
  });
  EXPECT_FALSE(std::filesystem::exists(folder_ / "wrote")) << "32 MiB have gone somewhere";
  for (ssize_t got = 0; (got = ::read(pipe[0], buffer.data(), buffer.size())) > 0;)
    seen += static_cast<std::size_t>(got);
  ::close(pipe[0]);
  EXPECT_EQ(seen, std::size_t{32} << 20);
  EXPECT_EQ(End(caller), 0);
}

TEST_F(StepSpreadTest, TheFirstTaskOnAnotherNodeReadsTheCallersInput) {
  std::ofstream(folder_ / "in") << std::string(300'000, 'x') << "\nend\n";
  const int input = ::open((folder_ / "in").c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(End(Call("out", "", "block 1:1,2:1", "wc -c", input)), 0);
  ::close(input);
  EXPECT_EQ(SortedLines(), (Lines{"0", "300005"}));
}

TEST_F(StepSpreadTest, AFileSharedByAllTasksIsOnTheCallersNode) {
  std::ofstream(folder_ / "all") << "old\n";
  EXPECT_EQ(Run("f", "block 0:1,1:1", "echo $RANK; echo bad $RANK >&2"), 0);
  EXPECT_EQ(SortedLines("all"), (Lines{"0", "1", "bad 0", "bad 1"}));
  EXPECT_EQ(Out(), "");
}

TEST_F(StepSpreadTest, SignalsReachTasksOnAllNodes) {
  const pid_t caller =
      Call("out", "", "block 0:1,1:1", "trap 'exit 9' USR1; echo up$RANK; while :; do sleep 0.01; done");
  AwaitText("out", "up0");
  AwaitText("out", "up1");
  ::kill(caller, SIGUSR1);
  EXPECT_EQ(End(caller), 9);
}

TEST_F(StepSpreadTest, WithoutTheirCallerAllTasksEnd) {
  const pid_t caller = Call("out", "", "block 0:1,1:1", Staying());
  AwaitText("out", "up0");
  AwaitText("out", "up1");
  ::kill(caller, SIGKILL);
  EXPECT_EQ(End(caller), 256 + SIGKILL);
  AwaitGone(0);
  AwaitGone(1);
  EXPECT_EQ(End(Call("b", "g", "block 0:1,1:1", "true")), 0);
}

TEST_F(StepSpreadTest, WithoutTheCallersStepProcessAllTasksEnd) {
  const pid_t caller = Call("out", "", "block 0:1,1:1", Staying());
  AwaitText("out", "up0");
  AwaitText("out", "up1");
  Stop(0);
  EXPECT_EQ(End(caller), 1);
  AwaitGone(0);
  AwaitGone(1);
}

TEST_F(StepSpreadTest, ALostNodeEndsTheStepAndIsNamed) {
  const pid_t caller = Call("out", "", "block 0:1,1:1,2:1", Staying());
  for (const char* text : {"up0", "up1", "up2"}) AwaitText("out", text);
  Stop(1);
  EXPECT_EQ(End(caller), 143);
  EXPECT_NE(Out().find("t: error: the connection to m1 is lost ("), std::string::npos) << Out();
  EXPECT_NE(Out().find("), and task 1 with it\n"), std::string::npos) << Out();
  for (const int rank : {0, 1, 2}) AwaitGone(rank);
  EXPECT_EQ(End(Call("b", "", "block 0:1,1:1", "true")), 1);
  EXPECT_EQ(Out("b"), "t: error: cannot start tasks on m1: Connection refused\n");
}

TEST_F(StepSpreadTest, AStepThatOutlivesNodesContinuesWithoutALostOne) {
  const pid_t caller = Call("out", "ok", "block 0:1,1:1,2:1", Staying());
  for (const char* text : {"up0", "up1", "up2"}) AwaitText("out", text);
  Stop(1);
  AwaitText("out", "), and task 1 with it\n");
  AwaitGone(1);
  EXPECT_EQ(Out().find("Terminating"), std::string::npos) << Out();
  ::kill(caller, SIGTERM);
  EXPECT_NE(End(caller), 0);
  for (const int rank : {0, 2}) AwaitGone(rank);
}

TEST_F(StepSpreadTest, APeerWithoutTheKeyIsIgnored) {
  Stop(1);
  Serve(1, std::string(64, 'b'));
  EXPECT_EQ(Run("", "block 0:1,1:1", "touch ran$RANK"), 1);
  EXPECT_NE(Out().find("t: error: cannot start tasks on m1: it does not know the job's key"), std::string::npos)
      << Out();
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ran0"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "ran1"));
}

TEST_F(StepSpreadTest, AVersionMismatchAndARefusalAreReported) {
  EXPECT_EQ(Run("r", "block 0:1,1:1", "true"), 1);
  EXPECT_EQ(Out(), "t: error: m1 refuses its part: t: not me\n");
  Stop(1);
  Serve(1, kKey, "2");
  EXPECT_EQ(End(Call("b", "", "block 0:1,1:1", "true")), 1);
  EXPECT_NE(Out("b").find("divvy on this node is 2, the caller's is 1"), std::string::npos) << Out("b");
}

TEST_F(StepSpreadTest, GarbageAndSilenceAreTolerated) {
  std::vector<Descriptor> silent;
  for (int i = 0; i < 300; ++i) {
    auto socket = DialTcp({"127.0.0.1", port(1)}, std::chrono::seconds(5));
    ASSERT_TRUE(socket);
    silent.emplace_back(*socket);
  }
  auto rubbish = DialTcp({"127.0.0.1", port(1)}, std::chrono::seconds(5));
  ASSERT_TRUE(rubbish);
  const std::string noise(100'000, 'x');
  static_cast<void>(!::send(*rubbish, noise.data(), noise.size(), MSG_NOSIGNAL));
  ::close(*rubbish);
  EXPECT_EQ(Run("", "block 0:1,1:1", "true"), 0);
}

TEST_F(StepSpreadTest, StepsQueueForGpusOnAllNodesWithoutDeadlock) {
  const std::string hold = "echo up$RANK; until [ -e go ]; do sleep 0.01; done";
  const pid_t a = Call("a", "g", "block 0:1,1:1", hold);
  AwaitText("a", "up1");
  const pid_t b = Call("b", "g", "block 1:1,2:1", hold, -1, 2);
  AwaitText("b", "up1");
  const pid_t c = Call("c", "g", "block 0:1,1:1", "echo got$RANK");
  AwaitText("c", "t: busy");
  std::ofstream(folder_ / "go").put('y');
  for (const pid_t pid : {a, b, c}) EXPECT_EQ(End(pid), 0);
  EXPECT_NE(Out("c").find("got1"), std::string::npos);
}

TEST_F(StepSpreadTest, TheServerExitsOnSigtermOnly) {
  ::kill(servers_[1], SIGUSR1);
  ::kill(servers_[1], SIGINT);
  EXPECT_EQ(Run("", "block 0:1,1:1", "true"), 0);
  ::kill(servers_[1], SIGTERM);
  EXPECT_EQ(End(servers_[1]), 0);
  servers_[1] = -1;
}

}  // namespace step_spread_test
}  // namespace divvy
