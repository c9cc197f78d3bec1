// Slurm's options one by one and combined. Whole scripts are in tests/data/slurm, wrong ones in
// tests/bad_input/slurm.txt.
#include "dialect/slurm/slurm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "dialect/options/bad_input.h"
#include "dialect/options/node_options.h"
#include "dialect/options/slurm_request.h"
#include "dialect/options/test_surroundings.h"

namespace divvy::dialect {
namespace slurm_test {

/// Parses a "#SBATCH" line and calls FinishSlurm.
Result<JobSpec> Read(const std::string& line, const std::string& command_line = "",
                     std::vector<std::string> environment = {}) {
  ParseContext around = TestParseContext();
  around.environment = std::move(environment);
  JobSpec spec;
  DIVVY_CHECK(ApplySlurmLines("#!/bin/sh\n#SBATCH " + line + "\n", "job.sh", around, spec));
  DIVVY_CHECK(ApplySbatchEnvironment(around, spec));
  const std::vector<std::string> words = ShellSplit(command_line).value_or(std::vector<std::string>());
  DIVVY_TRY([[maybe_unused]] const Parsed parsed, ParseOptions(SbatchOptions(spec, around), words));
  DIVVY_CHECK(FinishSlurm(spec));
  return spec;
}

JobSpec Good(const std::string& line, const std::string& command_line = "", std::vector<std::string> environment = {}) {
  auto spec = Read(line, command_line, std::move(environment));
  EXPECT_TRUE(spec) << line << ": " << (spec ? "" : spec.error().message);
  return spec ? *spec : JobSpec();
}

bool HasNote(const JobSpec& spec, std::string_view part) {
  return std::ranges::any_of(spec.notes, [&](const std::string& note) { return note.find(part) != std::string::npos; });
}

const BadInputKind kSbatch("sbatch", [](const std::string& input) -> std::optional<std::string> {
  auto spec = Read(input);
  if (!spec) return spec.error().message;
  if (const Status place = CheckSlurmPlace(*spec); !place) return place.error().message;
  spec->dialect = Dialect::kSlurm;
  if (const Status one = CompleteSlurmOnOne(*spec, "box"); !one) return one.error().message;
  return std::nullopt;
});

TEST(SlurmGpus, EachSyntaxRequestsTheSameTwoGpus) {
  for (const char* line :
       {"--gres=gpu:2", "--gres gpu:2", "--gpus=2", "-G2", "-G 2", "--gpus-per-node=2", "-n2 --gpus-per-task=1",
        "--ntasks-per-node=2 --gpus-per-task=1", "-n 4 --ntasks-per-gpu=2", "--sockets-per-node=2 --gpus-per-socket=1",
        "--gres=gpu:1,gpu:1", "--gres=gres/gpu:2", "--gres=gpu=2", "--gres=gpu:2(S:0-1)",
        "-n1 --tres-per-task=cpu=4,gres/gpu:2", "--gres=lustre,gpu:2", "--gpus=2 --gres=gpu:2", "--gpus-per-n=2"}) {
    EXPECT_EQ(Good(line).request.gpus, 2) << line;
  }
}

TEST(SlurmGpus, NoneOrZeroRequestsNoGpu) {
  for (const char* line : {"--gres=none", "--gres=gpu:0", "--gpus=0", "--gres=craynetwork:0", "-n 8"}) {
    EXPECT_EQ(Good(line).request.gpus, 0) << line;
  }
}

TEST(SlurmGpus, TypesBecomeTermsOfTheModelName) {
  EXPECT_EQ(Good("--gres=gpu:a100:1").request.gpu_type, "a100");
  EXPECT_EQ(Good("--gres=gpu:a100").request.gpus, 1);
  EXPECT_EQ(Good("--gres=gpu:tesla_v100:1").request.gpu_type, "v100");
  EXPECT_EQ(Good("--gpus=nvidia_h100_80gb_hbm3:2").request.gpu_type, "h100&80gb&hbm3");
  EXPECT_EQ(Good("--gpus-per-node=rtx3090:1").request.gpu_type, "rtx&3090");
  EXPECT_EQ(Good("--gpus=a100:2 --constraint=80gb").request.gpu_memory, Bytes(80'000'000'000));
}

TEST(SlurmGpus, SharesAndSlicesGetAWholeGpuWithANote) {
  EXPECT_EQ(Good("--gres=shard:2").request.gpus, 1);
  EXPECT_TRUE(HasNote(Good("--gres=shard:2"), "a whole GPU"));
  const JobSpec slice = Good("--gres=gpu:a100_1g.10gb:2");
  EXPECT_EQ(slice.request.gpus, 2);
  EXPECT_EQ(slice.request.gpu_type, "a100");
  EXPECT_TRUE(HasNote(slice, "1g.10gb"));
}

TEST(SlurmGpus, TheErrorForACountBeforeTheTypeShowsTheRightOrder) {
  const auto spec = Read("--gres=gpu:1:tesla:v100");
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().message, "job.sh line 2: --gres: the count must come last; write --gres=gpu:tesla_v100:1");
}

TEST(SlurmConstraint, KeepsGpuFeaturesAndNotesOthers) {
  EXPECT_EQ(Good("-C a100").request.gpu_type, "a100");
  EXPECT_EQ(Good("-C 'a100|h100'").request.gpu_type, "a100|h100");
  EXPECT_EQ(Good("-C '[a100|h100]'").request.gpu_type, "a100|h100");
  EXPECT_EQ(Good("-C 'gpu&hbm80g'").request.gpu_memory, Bytes(80'000'000'000));
  EXPECT_EQ(Good("-C '(v100|a100)&80gb'").request.gpu_type, "v100|a100");
  EXPECT_EQ(Good("-C 'v100|a100' --gpus=a100:1").request.gpu_type, "a100&v100|a100");
  EXPECT_EQ(Good("-C 'haswell|a100'").request.gpu_type, "a100");
  EXPECT_TRUE(HasNote(Good("-C intel"), "intel"));
  EXPECT_EQ(Good("-C intel").request.gpu_type, "");
}

TEST(SlurmTasks, CpusAndMemoryAreMultipliedByTasks) {
  const JobSpec spec = Good("-n 4 -c 3 --mem-per-cpu=2G");
  EXPECT_EQ(spec.request.tasks, 4);
  EXPECT_EQ(spec.request.cpus, 12);
  EXPECT_EQ(spec.request.memory, Bytes(std::int64_t{24} << 30));
  EXPECT_EQ(Good("--gpus=2 --cpus-per-gpu=5 --mem-per-gpu=10G").request.cpus, 10);
  EXPECT_EQ(Good("--gpus=2 --cpus-per-gpu=5 --mem-per-gpu=10G").request.memory, Bytes(std::int64_t{20} << 30));
  EXPECT_EQ(Good("--mem=4096").request.memory, Bytes(std::int64_t{4} << 30));
  EXPECT_EQ(Good("--mem=0").request.memory, Bytes(0));
  EXPECT_EQ(Good("-n 4").request.cpus, 0) << "CPUs are counted only where they are asked for";
  EXPECT_EQ(Good("--gpus=4 --gpus-per-task=1").request.tasks, 4);
  EXPECT_EQ(Good("--gpus=2 --ntasks-per-gpu=3").request.tasks, 6);
}

TEST(SlurmTime, IsRoundedUpToMinutes) {
  EXPECT_EQ(Good("-t 90").time_limit, 90min);
  EXPECT_EQ(Good("-t 1:30").time_limit, 2min);
  EXPECT_EQ(Good("--time=1-12:00:00").time_limit, 36h);
  EXPECT_EQ(Good("--time 0").time_limit, Duration(0));
  EXPECT_EQ(Good("--time=UNLIMITED").time_limit, Duration(0));
}

TEST(SlurmWhen, ReadsBeginHoldArraySignalAndPriorities) {
  EXPECT_EQ(Good("--begin=now+2hours").begin, kTestNow + 2h);
  EXPECT_EQ(Good("--begin=now+1day").begin, kTestNow + 24h);
  EXPECT_EQ(Good("--begin=now+30").begin, kTestNow + 30s);
  EXPECT_TRUE(Good("-H").is_held);
  const JobSpec array = Good("--array=0-15:4%2");
  EXPECT_EQ(array.array->indices.ToString(), "0,4,8,12");
  EXPECT_EQ(array.array->at_once, 2);
  EXPECT_EQ(array.output, "slurm-%A_%a.out");
  const JobSpec warned = Good("--signal=B:USR1@300");
  EXPECT_EQ(warned.warn, (WarnSignal{.signal = 10, .before = 300s, .batch_only = true}));
  EXPECT_EQ(Good("--signal=SIGUSR1").warn.before, 60s);
  EXPECT_EQ(Good("--nice").priority, -100);
  EXPECT_EQ(Good("--nice=-5").priority, 5);
  EXPECT_EQ(Good("--priority=50 --nice=20").priority, 30);
  EXPECT_TRUE(Good("--requeue").requeues_after_reboot);
  EXPECT_FALSE(Good("--requeue --no-requeue").requeues_after_reboot);
  EXPECT_TRUE(Good("--requeue --no-requeue").is_run_once);
  EXPECT_FALSE(Good("--no-requeue --requeue").is_run_once);
  EXPECT_FALSE(Good("").is_run_once);
  EXPECT_LT(Good("-N2 --no-kill").stale_grace, 0s);
  EXPECT_LT(Good("-N2 -k").stale_grace, 0s);
  EXPECT_EQ(Good("-N2 --no-kill=off").stale_grace, 0s);
}

TEST(SlurmWhen, DependenciesOfALaterLevelReplaceEarlierOnes) {
  const JobSpec spec = Good("--dependency=afterok:12:13", "-d afterany:14");
  ASSERT_EQ(spec.dependencies.size(), 1u);
  EXPECT_EQ(spec.dependencies.front().kind, DependencyKind::kAfterAny);
  EXPECT_EQ(Good("-d singleton").dependencies.front().kind, DependencyKind::kSingleton);
  EXPECT_TRUE(Good("--kill-on-invalid-dep=no").keeps_waiting);
}

TEST(SlurmLevels, CommandLineWinsOverEnvironmentWinsOverScript) {
  EXPECT_EQ(Good("--time=10", "", {"SBATCH_TIMELIMIT=20"}).time_limit, 20min);
  EXPECT_EQ(Good("--time=10", "--time=30", {"SBATCH_TIMELIMIT=20"}).time_limit, 30min);
  EXPECT_EQ(Good("--gres=gpu:4", "--gpus=1").request.gpus, 1) << "another option for the same thing wins as well";
  EXPECT_EQ(Good("--mem=8G", "--mem-per-cpu=1G").request.memory, Bytes(std::int64_t{1} << 30));
  EXPECT_EQ(Good("-J a", "", {"SBATCH_JOB_NAME=b"}).name, "b");
  EXPECT_TRUE(Good("--no-requeue", "", {"SBATCH_REQUEUE="}).requeues_after_reboot);
  EXPECT_EQ(Good("--gres=gpu:1", "", {"SBATCH_GRES="}).request.gpus, 1) << "an empty variable is an unset one";
}

TEST(SlurmLevels, SallocAndSrunReadTheirOwnVariables) {
  const auto read = [](std::string_view prefix, std::vector<std::string> environment) {
    ParseContext around = TestParseContext();
    around.environment = std::move(environment);
    JobSpec spec;
    EXPECT_TRUE(ApplyCommandEnvironment(prefix, around, spec));
    EXPECT_TRUE(FinishSlurm(spec));
    return spec;
  };
  EXPECT_EQ(read("SALLOC_", {"SALLOC_GRES=gpu:3", "SBATCH_GRES=gpu:2"}).request.gpus, 3);
  EXPECT_EQ(read("SALLOC_", {"SALLOC_OUTPUT=x"}).output, "slurm-%j.out") << "salloc has no --output";
  EXPECT_EQ(read("SLURM_", {"SLURM_NTASKS=4", "SLURM_PARTITION=gpu"}).request.tasks, 4);
  EXPECT_EQ(read("SLURM_", {"SLURM_NTASKS=4", "SLURM_JOB_ID=7"}).request.tasks, 1) << "they describe that job";
  ParseContext around = TestParseContext();
  around.environment = {"SALLOC_GRES=gpu:x:y"};
  JobSpec spec;
  EXPECT_EQ(ApplyCommandEnvironment("SALLOC_", around, spec).error().message.substr(0, 35),
            "SALLOC_GRES in the environment: --g");
}

TEST(SlurmLines, RareOptionsMayBeAbbreviatedToo) {
  EXPECT_TRUE(HasNote(Good("--reservat=x"), "--reservation"));
  EXPECT_EQ(Good("--container-im=a/b").labels.at("slurm.container-image"), "a/b");
  EXPECT_FALSE(Read("--cont=x")) << "it is the beginning of several";
}

TEST(SlurmNodes, OneNodeIsAcceptedAndOtherNodeOptionsAreNotedOrRefused) {
  EXPECT_TRUE(Good("--nodes=1").notes.empty());
  EXPECT_TRUE(Good("-N1").notes.empty());
  EXPECT_TRUE(HasNote(Good("-N 1-4"), "one node"));
}

/// Completes the spec as a single-node server does.
Status OnOne(JobSpec spec) {
  spec.dialect = Dialect::kSlurm;
  return CompleteSlurmOnOne(spec, "box.lab");
}

TEST(SlurmNodes, OptionsPerNodeApplyToEachAndASingleServerRefusesThem) {
  const JobSpec two = Good("--nodes=2 --gres=gpu:4 --ntasks-per-node=4 -c 2 --mem=10G");
  EXPECT_EQ(two.request.nodes, 2);
  EXPECT_EQ(two.request.gpus, 4) << "--gres counts per node";
  EXPECT_EQ(two.request.tasks, 8);
  EXPECT_EQ(two.request.cpus, 8);
  EXPECT_EQ(two.request.memory, Bytes(std::int64_t{10} << 30));
  EXPECT_FALSE(two.request.spreads_tasks);
  EXPECT_TRUE(CheckSlurmPlace(two));
  const Status place = OnOne(two);
  ASSERT_FALSE(place);
  EXPECT_EQ(place.error().message,
            "the job requests 2 nodes with 4 GPUs each, 8 in total, but this server is a single node; for the same "
            "amount here write --nodes=1 --gpus=8 --ntasks-per-node=8");
  const JobSpec one = Good("--nodes=2 --gres=gpu:4", "--nodes=1");
  EXPECT_TRUE(OnOne(one)) << "the command line made it one";
  EXPECT_EQ(one.request.nodes, 1);
  EXPECT_EQ(one.request.gpus, 4);
  EXPECT_EQ(Good("--gpus=8 --gpus-per-node=4").labels.at("slurm.node-count"), "2");
  EXPECT_EQ(Good("-n 8 --ntasks-per-node=4 --gres=gpu:4").request.gpus_in_all(), 8);
  EXPECT_EQ(Good("-n 8 --gpus-per-task=1 --gres=gpu:4").labels.at("slurm.node-count"), "2");
  EXPECT_EQ(Good("-C '[a100*2&h100*1]' --gres=gpu:1").request.nodes, 3);
  EXPECT_FALSE(CheckSlurmPlace(Good("--gpus=a100:1,h100:1")));
}

TEST(SlurmNodes, GpusOfTheJobAreDividedUnevenlyIfNecessary) {
  const JobSpec spec = Good("-N 2 --gpus=7");
  EXPECT_EQ(spec.request.gpus, 4);
  EXPECT_EQ(spec.request.short_nodes, 1);
  EXPECT_EQ(spec.request.gpus_in_all(), 7);
  EXPECT_TRUE(spec.notes.empty());
  EXPECT_EQ(Good("-N 4 --gpus=9").request.short_nodes, 3) << "3, 2, 2 and 2";
  EXPECT_EQ(Good("-N 4 --gpus=9").request.gpus_in_all(), 9);
  EXPECT_EQ(Good("-N 2 --gpus=8").request.short_nodes, 0);
  EXPECT_EQ(Good("--nodes=2 --gpus=7", "--gpus=8").request.short_nodes, 0) << "the command line made it even";
}

TEST(SlurmNodes, WhatCannotBeUnevenIsRoundedUp) {
  for (const char* options : {"-N 2 --gpus=3 --cpus-per-gpu=4", "-N 2 --gpus=3 --mem-per-gpu=20G",
                              "-N 2 --gpus=3 --ntasks-per-gpu=2", "-N 2 -n 5 --gpus=3"})
    EXPECT_EQ(Good(options).request.gpus_in_all(), 4) << options;
  const JobSpec counted = Good("-C '[a100*1&h100*1]' --gpus=3");
  EXPECT_EQ(counted.request.gpus_in_all(), 4);
  EXPECT_TRUE(HasNote(counted, "3 GPUs on 2 nodes cannot be divided evenly: 2 on each"));
  const JobSpec tasks = Good("-N 2 -n 3 --gpus-per-task=2 -c 5 --mem=9G");
  EXPECT_EQ(tasks.request.gpus, 4) << "two tasks on the first";
  EXPECT_EQ(tasks.request.cpus, 10);
  EXPECT_EQ(tasks.request.memory, Bytes(std::int64_t{9} << 30)) << "--mem counts per node";
}

TEST(SlurmNodes, TasksMaySpreadOverNodesWithoutANodeCount) {
  const JobSpec spec = Good("-n 16 --gpus-per-task=1 -c 4");
  EXPECT_TRUE(spec.request.spreads_tasks);
  EXPECT_EQ(spec.request.nodes, 1);
  EXPECT_EQ(spec.request.gpus, 16);
  EXPECT_EQ(spec.request.cpus, 64);
  EXPECT_TRUE(Good("-n 16 -c 4").request.spreads_tasks);
  EXPECT_TRUE(Good("--gpus=8 --ntasks-per-gpu=1").request.spreads_tasks);
  for (const char* line : {"-N 1 -n 16 --gpus-per-task=1", "-n 16", "-n 4 --gres=gpu:4", "-n 1 --gpus-per-task=1",
                           "--gpus=4 --ntasks-per-gpu=2", "-n 4 -c 2 --exclusive", "--ntasks-per-node=4 -c 2"}) {
    EXPECT_FALSE(Good(line).request.spreads_tasks) << line;
  }
}

TEST(SlurmNodes, FinishingTwiceDividesOnce) {
  ParseContext around = TestParseContext();
  JobSpec spec;
  ASSERT_TRUE(ApplySlurmLines("#!/bin/sh\n#SBATCH -N 2 --gpus=8 -c 3 --mem-per-gpu=1G\n", "job.sh", around, spec));
  for (int time = 0; time < 3; ++time) ASSERT_TRUE(FinishSlurm(spec));
  EXPECT_EQ(spec.request.gpus, 4);
  EXPECT_EQ(spec.request.cpus, 3);
  EXPECT_EQ(spec.request.memory, Bytes(std::int64_t{4} << 30));
}

TEST(SlurmNodes, AmountsFromDivvysOwnOptionsAreKept) {
  JobSpec spec = Good("-N 2");
  spec.request.gpus = 4;
  spec.request.memory = Bytes(1 << 20);
  ASSERT_TRUE(FinishSlurm(spec));
  EXPECT_EQ(spec.request.gpus, 4);
  EXPECT_EQ(spec.request.memory, Bytes(1 << 20));
}

TEST(SlurmNodes, ScriptComponentsBelongToOneJob) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  const char* script =
      "#!/bin/sh\n#SBATCH -n 1 -t 10 -x n9 --mem=1G\n#SBATCH hetjob\n#SBATCH -N 2 --ntasks-per-node=2 -t 60\n"
      "#SBATCH --gres=gpu:h100:4 -p big\n#SBATCH hetjob\n#SBATCH -n 8 -c 2 -x n1 -J other\n";
  ASSERT_TRUE(ApplySlurmLines(script, "job.sh", around, spec));
  ASSERT_TRUE(FinishSlurm(spec));
  EXPECT_TRUE(CheckSlurmPlace(spec));
  ASSERT_EQ(spec.request.components(), 3U);
  EXPECT_EQ(spec.request.tasks, 1) << "the first component is the job's own";
  EXPECT_EQ(spec.request.gpus_in_all(), 8);
  EXPECT_EQ(spec.time_limit, std::chrono::hours(1)) << "the longest";
  EXPECT_EQ(spec.pool, "") << "not the second's";
  const Component& second = spec.request.others[0];
  EXPECT_EQ(second.nodes, 2);
  EXPECT_EQ(second.gpus, 4);
  EXPECT_EQ(second.tasks, 4);
  EXPECT_EQ(second.gpu_type, "h100");
  EXPECT_EQ(second.pool, "big");
  EXPECT_EQ(second.memory, Bytes(0)) << "what is not handed on";
  EXPECT_EQ(second.excluded_nodes, std::vector<std::string>{"n9"}) << "what is";
  const Component& third = spec.request.others[1];
  EXPECT_EQ(third.cpus, 16);
  EXPECT_TRUE(third.spreads_tasks);
  EXPECT_EQ(third.excluded_nodes, std::vector<std::string>{"n1"});
  EXPECT_EQ(spec.name, "") << "a component has no name of its own, and a note says so";
  EXPECT_FALSE(spec.notes.empty());
  // Finishing again, as after more options, must change nothing.
  const JobSpec before = spec;
  ASSERT_TRUE(FinishSlurm(spec));
  EXPECT_EQ(spec.request, before.request);
  // A command line's words override the script's, component by component.
  const std::vector<std::string> words = {"-n", "2", ":", "--gres=gpu:1", "job.sh"};
  ASSERT_TRUE(ReadSlurmWords(SbatchOptions(spec, around), words, around, spec));
  ASSERT_TRUE(FinishSlurm(spec));
  EXPECT_EQ(spec.request.tasks, 2);
  EXPECT_EQ(spec.request.others[0].gpus, 1);
  EXPECT_EQ(spec.request.others[0].nodes, 2);
  EXPECT_EQ(spec.request.others[1], third);
}

TEST(SlurmNodes, CommandLineComponentsAreRead) {
  const ParseContext around = TestParseContext();
  JobSpec wrong;
  EXPECT_FALSE(ApplySlurmLines("#!/bin/sh\n#SBATCH hetjob\n#SBATCH -n x\n", "job.sh", around, wrong));
  JobSpec words;
  const std::vector<std::string> line = {"-n", "1", ":", "-n", "2", ":", "-n", "3", "job.sh", ":"};
  const auto parsed = ReadSlurmWords(SbatchOptions(words, around), line, around, words);
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->positional, (std::vector<std::string>{"job.sh", ":"}));
  ASSERT_TRUE(FinishSlurm(words));
  ASSERT_EQ(words.request.components(), 3U);
  EXPECT_EQ(words.request.others[1].tasks, 3);
  words.script = "x";
  EXPECT_TRUE(CheckComplete(words));
  words.array = ArraySpec{IndexRanges(0, 3), 0};
  ASSERT_FALSE(CheckComplete(words));
  EXPECT_NE(CheckComplete(words).error().message.find("heterogeneous"), std::string::npos);
}

using Names = std::vector<std::string>;

TEST(SlurmNodes, ReadsNodeListAndExclude) {
  const JobSpec spec = Good("--nodelist=n[1-3] --exclude=n2,gpu[07-08]");
  EXPECT_EQ(spec.request.nodes, 3) << "each of them";
  EXPECT_EQ(Good("-N1 --nodelist=n[1-3] --exclude=n2,gpu[07-08]").request.node_list, (Names{"n1", "n3"}));
  EXPECT_EQ(spec.request.excluded_nodes, (Names{"n2", "gpu07", "gpu08"}));
  const Status too_few = CheckNodes(Good("-N 2 -w n1").request);
  ASSERT_FALSE(too_few);
  EXPECT_EQ(too_few.error().message,
            "--nodelist names 1 node, but --nodes requests 2; list more nodes, or request fewer");
  EXPECT_TRUE(HasNote(Good("-w ./hosts"), "host files are not read"));
  EXPECT_FALSE(Read("-w n[1-"));
  EXPECT_EQ(Good("-w n1", "-w n2").request.node_list, Names{"n2"});
}

TEST(SlurmNodes, ASingleServerAcceptsAnyHostName) {
  const auto alone = [](const std::string& line) {
    JobSpec spec = Good(line);
    spec.dialect = Dialect::kSlurm;
    EXPECT_TRUE(CompleteSlurmOnOne(spec, "box.lab"));
    EXPECT_TRUE(spec.request.node_list.empty() && spec.request.excluded_nodes.empty());
    EXPECT_EQ(spec.request.constraint, "");
    return spec;
  };
  EXPECT_TRUE(alone("--nodelist=box").notes.empty());
  EXPECT_TRUE(HasNote(alone("--nodelist=n7"), "--nodelist=n7: the only node is box.lab; ignored"));
  EXPECT_TRUE(alone("--exclude=n1,n2").notes.empty());
  EXPECT_EQ(alone("--constraint=skylake").request.gpus, 0);
  EXPECT_FALSE(OnOne(Good("--exclude=n1,box")));
}

TEST(SlurmNodes, NodeFeaturesAreDistinguishedFromGpuModels) {
  EXPECT_EQ(Good("--constraint=a100").request.constraint, "");
  EXPECT_EQ(Good("--constraint=ib").request.constraint, "ib");
  const JobSpec both = Good("--constraint='a100&(ib|roce)&nvme'");
  EXPECT_EQ(both.request.gpu_type, "a100");
  EXPECT_EQ(both.request.constraint, "(ib|roce)&nvme");
  EXPECT_EQ(Good("--constraint='[rack1|rack2]'").request.constraint, "[rack1|rack2]");
  EXPECT_EQ(Good("--constraint='a100|ib'").request.constraint, "") << "the model is asked for";
  EXPECT_EQ(Good("--constraint='a100|ib'").request.gpu_type, "a100");
  const JobSpec counted = Good("-C '[a100*2&h100*1]' --gres=gpu:1");
  EXPECT_EQ(counted.request.constraint, "[a100*2&h100*1]");
  EXPECT_EQ(counted.request.gpu_type, "");
  EXPECT_EQ(Good("-C 'ib*2'").request.nodes, 2);
  EXPECT_EQ(Good("-C 'ib*2'").request.constraint, "ib");
}

TEST(SlurmNodes, ExclusiveRequestsAllGpusOfTheServer) {
  JobSpec spec = Good("--exclusive --gres=gpu:1");
  CompleteSlurm(spec, 8);
  EXPECT_EQ(spec.request.gpus, 8);
  EXPECT_TRUE(HasNote(Good("--exclusive=user"), "other jobs"));
}

TEST(SlurmFiles, ReadsPatternsAndDirectories) {
  const JobSpec spec = Good("-o logs/%x-%j.out -e %J.err -D sub --open-mode=append");
  EXPECT_EQ(spec.output, "logs/%x-%j.out");
  EXPECT_EQ(spec.error, "%j.err");
  EXPECT_EQ(spec.directory, "/home/ada/work/sub");
  EXPECT_TRUE(spec.appends_output);
  EXPECT_EQ(Good("-J x").output, "slurm-%j.out");
  EXPECT_EQ(Good("-o /dev/null").output, "/dev/null");
}

TEST(SlurmOptions, APartitionIsReadWithStrayCommasAround) {
  EXPECT_EQ(Good("-p debug,debug,").pool, "debug");
  EXPECT_EQ(Good("-p ,gpu,debug,,gpu").pool, "gpu,debug");
}

TEST(SlurmLines, AreSplitAsSlurmSplitsThem) {
  const SlurmLines found = FindSlurmLines(
      "#!/bin/bash\n#SBATCH --job-name=\"two words\" -N1 # why\n##SBATCH --off\n# SBATCH --off\n#sbatch "
      "--gpus=1\n\n#SBATCH -o a\\ b\n"
      "echo hi\n#SBATCH --late\n");
  ASSERT_EQ(found.lines.size(), 2u);
  EXPECT_EQ(found.lines[0].words, (std::vector<std::string>{"--job-name=two words", "-N1"}));
  EXPECT_EQ(found.lines[1].words, (std::vector<std::string>{"-o", "a b"}));
  ASSERT_EQ(found.unread.size(), 4u);
  EXPECT_TRUE(found.unread[0].is_on_purpose);
  EXPECT_FALSE(found.unread[2].is_on_purpose);
  EXPECT_NE(found.unread[3].why.find("first command"), std::string::npos);
}

TEST(SlurmLines, StrayWordsAreNotedAndNotFatal) {
  EXPECT_TRUE(HasNote(Good("--job-name=my job"), "'job' does not belong to an option"));
}

TEST(SlurmExplain, SaysThatGresCountsPerNode) {
  ScriptExplanation explanation;
  ExplainSlurmLines("#!/bin/sh\n#SBATCH --gres=gpu:2\n#SBATCH --switches=1\n", "job.sh", TestParseContext(),
                    explanation);
  EXPECT_FALSE(explanation.had_errors);
  EXPECT_NE(explanation.text.find("counts per node"), std::string::npos);
  EXPECT_NE(explanation.text.find("has no effect: ignored when choosing nodes"), std::string::npos);
}

TEST(SlurmExplain, ContinuesAfterAnError) {
  ScriptExplanation explanation;
  ExplainSlurmLines("#!/bin/sh\n#SBATCH --gres=gpu:1:v100\n#SBATCH -t soon\n#SBATCH -n 2\n", "job.sh",
                    TestParseContext(), explanation);
  EXPECT_TRUE(explanation.had_errors);
  EXPECT_NE(explanation.text.find("gpu:v100:1"), std::string::npos);
  EXPECT_NE(explanation.text.find("soon"), std::string::npos);
  EXPECT_NE(explanation.text.find("--ntasks=2"), std::string::npos);
}

/// Formats a parsed script as text, for the golden files.
std::string Dump(const JobSpec& spec) {
  std::ostringstream out;
  const Request& r = spec.request;
  out << "name " << spec.name << "\ngpus " << r.gpus << " " << r.gpu_type << "\ngpu_memory " << r.gpu_memory.count()
      << "\nnodes " << r.nodes << (r.spreads_tasks ? " or more" : "") << "\ntasks " << r.tasks << "\ncpus " << r.cpus
      << "\nmemory " << r.memory.count() << "\ntime " << FormatClock(spec.time_limit) << "\noutput " << spec.output
      << "\nerror " << spec.error << "\npool " << spec.pool << "\naccount " << spec.account << "\n";
  if (!r.constraint.empty()) out << "constraint " << r.constraint << "\n";
  if (!r.node_list.empty()) out << "on " << Join(r.node_list, ",") << "\n";
  if (!r.excluded_nodes.empty()) out << "not on " << Join(r.excluded_nodes, ",") << "\n";
  if (spec.array) out << "array " << spec.array->indices.ToString() << " at once " << spec.array->at_once << "\n";
  for (const Dependency& dependency : spec.dependencies) out << "after " << FormatDependency(dependency) << "\n";
  if (spec.warn.signal != 0)
    out << "warn " << SignalName(spec.warn.signal) << " " << FormatDuration(spec.warn.before) << "\n";
  for (const std::string& note : spec.notes) out << "note " << note << "\n";
  return out.str();
}

std::string FileText(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(SlurmScripts, MatchTheirGoldenFiles) {
  // DIVVY_REWRITE=1 rewrites the files; check the diff before keeping it.
  const bool rewrites = std::getenv("DIVVY_REWRITE") != nullptr;
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DIVVY_SOURCE_DIR "/tests/data/slurm")) {
    if (entry.path().extension() != ".sh") continue;
    ++seen;
    JobSpec spec;
    const Status read = ReadScript(FileText(entry.path()), entry.path().filename().string(), TestParseContext(), spec);
    ASSERT_TRUE(read) << entry.path() << ": " << read.error().message;
    const std::filesystem::path golden = std::filesystem::path(entry.path()).replace_extension(".want");
    if (rewrites) std::ofstream(golden) << Dump(spec);
    EXPECT_EQ(Dump(spec), FileText(golden)) << entry.path();
  }
  EXPECT_GE(seen, 12);
}

}  // namespace slurm_test
}  // namespace divvy::dialect
