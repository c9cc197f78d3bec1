// Rules of Slurm's options that its own test suite checks.
#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "dialect/options/quantities.h"
#include "dialect/options/slurm_request.h"
#include "dialect/options/test_surroundings.h"
#include "dialect/slurm/slurm.h"

namespace divvy::dialect {
namespace slurm_rules_test {

using namespace std::chrono_literals;

/// The spec of these words of sbatch's command line, or the error.
Result<JobSpec> Asked(const std::vector<std::string>& words, std::vector<std::string> environment = {}) {
  static ParseContext around;
  around = TestParseContext();
  around.environment = std::move(environment);
  JobSpec spec;
  DIVVY_CHECK(ApplySbatchEnvironment(around, spec));
  DIVVY_CHECK(ParseOptions(SbatchOptions(spec, around), words));
  DIVVY_CHECK(FinishSlurm(spec));
  return spec;
}

std::string Refusal(const std::vector<std::string>& words, std::vector<std::string> environment = {}) {
  const auto spec = Asked(words, std::move(environment));
  return spec ? "" : spec.error().message;
}

TEST(SlurmRules, DistributionFillsInTheDefaults) {
  const auto text = [](std::string_view value) {
    const auto how = slurm::ParseDistribution(value);
    return how ? how->text : how.error().message;
  };
  EXPECT_EQ(text("cyclic"), "cyclic");
  EXPECT_EQ(text("*"), "block");
  EXPECT_EQ(text("*:*"), "block:cyclic");
  EXPECT_EQ(text("*:*:*"), "block:cyclic:cyclic");
  EXPECT_EQ(text("*:block:*"), "block:block:block") << "cores follow the sockets";
  EXPECT_EQ(text("cyclic:fcyclic:block"), "cyclic:fcyclic:block");
  EXPECT_EQ(text("pack"), "pack");
  EXPECT_EQ(text("*,nopack"), "block,nopack");
  EXPECT_EQ(slurm::ParseDistribution("plane=4")->plane_size, 4);
  for (const char* wrong : {"blocker", "block:cyclicer", "block:cyclic:cyclicer", "**", "*:**", ",", ",pack", "plane=0",
                            "block:arbitrary", "a:b:c:d", "pack,pack", ""}) {
    EXPECT_FALSE(slurm::ParseDistribution(wrong)) << wrong;
  }
}

TEST(SlurmRules, CountsOfGpusThatDisagreeAreRefusedInSlurmsWords) {
  const std::string spec = "Failed to validate job spec";
  for (const auto& [words, want] : std::vector<std::pair<std::string, std::string>>{
           {"--gpus-per-task=1 --gpus-per-node=1 -n2 -N1", "Requested node configuration is not available"},
           {"--gpus-per-task=1 --gpus-per-node=2 --ntasks-per-node=1 -N1",
            spec + ". Based on --gres=gpu/--gpus-per-node and --gpus-per-task requested number of tasks per node"},
           {"--gres=gpu:2 --gpus=1", "Failed to ensure --gpus >= --gres=gpu/--gpus-per-node >= --gpus-per-socket"},
           {"--gpus-per-socket=2 --sockets-per-node=1 --gpus=1", "Failed to ensure --gpus >= "},
           {"--gpus-per-task=1 -n2 --gpus=1", spec + ". Based on --gpus and --gpus-per-task number of requested tasks"},
           {"--gpus=4 --gpus-per-task=2 -n1", spec + ". Based on --gpus and --gpus-per-task number of requested tasks"},
           {"--gpus=3 --gpus-per-task=2 -N1", spec + ", --gpus not multiple of --gpus-per-task"},
           {"--gres=gpu:2 --gpus=3", spec + ", --gpus is not multiple of --gres=gpu/--gpus-per-node"},
           {"--gres=gpu:2 --gpus-per-socket=1 --sockets-per-node=1",
            spec + ". Based on --gres=gpu/--gpus-per-node and --gpus-per-socket required number of sockets differ"},
           {"--gres=gpu:2 --gpus=4 -N1", "required nodes (2) doesn't fall between min_nodes (1) and max_nodes (1)"},
           {"--gpus=1 -N2", spec + ", --gpus < -N"}}) {
    std::vector<std::string> list;
    for (const std::string_view word : SplitWords(words)) list.emplace_back(word);
    EXPECT_NE(Refusal(list).find(want), std::string::npos) << words << ": " << Refusal(list);
  }
  EXPECT_EQ(Refusal({"--gres=gpu:2", "--gpus=4"}), "") << "two nodes";
  const auto both = Asked({"--gpus-per-node=1", "--gres=gpu:2"});
  ASSERT_TRUE(both) << both.error().message;
  EXPECT_EQ(both->request.gpus, 2) << "--gres wins";
  EXPECT_EQ(both->notes.size(), 1U);
}

TEST(SlurmRules, ExclusiveTakesTheCpusOfAllGpus) {
  auto spec = Asked({"--exclusive", "--cpus-per-gpu=3", "--gpus-per-task=1", "-n1"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->request.cpus, 3);
  spec->dialect = Dialect::kSlurm;
  CompleteSlurm(*spec, 8);
  EXPECT_EQ(spec->request.gpus, 8);
  EXPECT_EQ(spec->request.cpus, 24);
}

/// The spec of a script that sbatch gets, with `words` on its command line.
JobSpec OfScript(const std::string& script, std::vector<std::string> words = {}) {
  static ParseContext around;
  around = TestParseContext();
  JobSpec spec;
  const Status read = ReadSlurmLines("#!/bin/sh\n" + script, "s.sh", around, spec, &words);
  EXPECT_TRUE(read) << read.error().message;
  return spec;
}

TEST(SlurmRules, ANoteSaysWhereTheOrderOfHostsIsLost) {
  const auto is_noted = [](const std::vector<std::string>* words, std::vector<std::string> environment) {
    ParseContext around = TestParseContext();
    around.environment = std::move(environment);
    around.read_file = [](const std::string&) { return Result<std::string>("n1\nn2\n"); };
    JobSpec spec;
    EXPECT_TRUE(ReadSlurmLines("#!/bin/sh\n#SBATCH -m arbitrary\n", "s.sh", around, spec, words));
    return std::ranges::any_of(spec.notes, [](const std::string& note) {
      return note.find("--distribution=arbitrary: tasks are placed in blocks") != std::string::npos;
    });
  };
  const std::vector<std::string> listed = {"-w", "n2,n1,n2"}, nothing;
  EXPECT_TRUE(is_noted(&listed, {}));
  EXPECT_TRUE(is_noted(nullptr, {})) << "divvy submit";
  EXPECT_TRUE(is_noted(&listed, {"SLURM_HOSTFILE=hosts"})) << "a list wins over the file";
  EXPECT_FALSE(is_noted(&nothing, {"SLURM_HOSTFILE=hosts"})) << "the job's srun reads the file";
}

TEST(SlurmRules, HintExcludesOptionsThatSayItInDetail) {
  const auto has_note = [](const std::vector<std::string>& words) {
    const auto spec = Asked(words);
    return spec && std::ranges::any_of(spec->notes, [](const std::string& note) {
             return note.find("mutually exclusive with --hint") != std::string::npos;
           });
  };
  EXPECT_TRUE(has_note({"--hint=nomultithread", "--threads-per-core=1"}));
  EXPECT_TRUE(has_note({"--hint=nomultithread", "-B1"}));
  EXPECT_FALSE(has_note({"--hint=nomultithread"}));
  EXPECT_FALSE(has_note({"--threads-per-core=1"}));
}

TEST(SlurmRules, SbatchReadsLinesOfLsfAndPbs) {
  const JobSpec lsf = OfScript(
      "\n#BSUB -oout.txt -e err.txt\n#BSUB -m\"n1 n2\" -R span[hosts=1]\n#BSUB -Jtrain -M4096 -n 2\n"
      "#BSUB -W 1:30 -q night\ntrue\n#BSUB -J late\n");
  EXPECT_EQ(lsf.output, "out.txt");
  EXPECT_EQ(lsf.error, "err.txt");
  EXPECT_EQ(lsf.name, "train");
  EXPECT_EQ(lsf.pool, "night");
  EXPECT_EQ(lsf.time_limit, Duration(90min));
  EXPECT_EQ(lsf.request.node_list, (std::vector<std::string>{"n1", "n2"}));
  EXPECT_EQ(lsf.request.memory, Bytes(std::int64_t{4} << 20)) << "4096 KiB for each of 2 CPUs, on 2 nodes";
  EXPECT_TRUE(std::ranges::any_of(lsf.notes,
                                  [](const std::string& note) { return note.find("#BSUB -R") != std::string::npos; }));
  const std::string pbs = "#PBS -N fold -l nodes=2:ppn=4,walltime=2:00:00\n";
  EXPECT_EQ(OfScript(pbs).name, "fold");
  EXPECT_EQ(OfScript(pbs).request.nodes, 2);
  EXPECT_EQ(OfScript(pbs).request.tasks, 8);
  EXPECT_EQ(OfScript(pbs).time_limit, Duration(2h));
  EXPECT_EQ(OfScript(pbs + "#SBATCH -J own\n").name, "own") << "lines of Slurm count more";
  EXPECT_EQ(OfScript(pbs, {"--ignore-pbs"}).name, "");
  EXPECT_EQ(OfScript(pbs, {"--ignore-pbs"}).request.nodes, 1);
}

TEST(SlurmRules, SbatchReadsTheGpusOfPbsNodes) {
  const JobSpec pbs = OfScript("#PBS -l nodes=1:ppn=4:gpus=2:shared\n");
  EXPECT_EQ(pbs.request.tasks, 4);
  EXPECT_EQ(pbs.request.gpus, 2);
  EXPECT_TRUE(
      std::ranges::any_of(pbs.notes, [](const std::string& note) { return note.find("shared") != std::string::npos; }));
}

TEST(SlurmRules, AWrongLineOfPbsIsNotedInAScriptOfSlurm) {
  const std::string script = "#PBS -N fold -l walltime=soon\n#PBS -N 'open\n";
  for (const std::string& own : {script + "#SBATCH --time=1\n", "#SBATCH --time=1\n" + script}) {
    const JobSpec spec = OfScript(own);
    EXPECT_EQ(spec.time_limit, Duration(1min));
    EXPECT_EQ(spec.name, "") << "none of the line counts";
    const auto is_meant = [](const std::string& note) {
      return note.find("this #PBS line is ignored") != std::string::npos;
    };
    EXPECT_EQ(std::ranges::count_if(spec.notes, is_meant), 2);
  }
  JobSpec spec;
  const ParseContext around = TestParseContext();
  const std::vector<std::string> words;
  EXPECT_FALSE(ReadSlurmLines(script, "job.sh", around, spec, &words)) << "nothing else says what the job needs";
}

TEST(SlurmRules, GpuBindIsCheckedAtSubmission) {
  for (const char* right : {"closest", "none", "single:2", "per_task:1", "map_gpu:0,1*2", "mask_gpu:0x3,c",
                            "verbose,closest", "v,map_gpu:0"}) {
    EXPECT_EQ(Refusal({std::string("--gpu-bind=") + right}), "") << right;
  }
  for (const char* wrong : {"map_gpu:", "map_gpu:0,,1", "single:x", "nearest"}) {
    EXPECT_NE(Refusal({std::string("--gpu-bind=") + wrong}).find("Invalid --gpu-bind argument"), std::string::npos)
        << wrong;
  }
  for (const char* wrong : {"map_gpu:NaN", "verbose,mask_gpu:NaN"}) {
    EXPECT_NE(Refusal({std::string("--gpu-bind=") + wrong}).find("Failed to validate NaN, offending character is N"),
              std::string::npos)
        << wrong;
  }
  for (const char* right : {"low", "high,memory=900", "memory=highm1", "1300,verbose"})
    EXPECT_EQ(Refusal({std::string("--gpu-freq=") + right}), "") << right;
  EXPECT_NE(Refusal({"--gpu-freq=blah"}).find("Invalid --gpu-freq argument: gpu:blah"), std::string::npos);
}

TEST(SlurmRules, ANumberOfNodesAloneIsOneTaskOnEach) {
  const auto spec = Asked({"-N2", "--gpus-per-task=3"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->request.tasks, 2);
  EXPECT_EQ(spec->request.gpus, 3);
  EXPECT_NE(Refusal({"--gpus-per-task=3"}).find("needs the number of tasks"), std::string::npos);
}

TEST(SlurmRules, ReservedCoresAndThreadsExcludeEachOther) {
  EXPECT_NE(Refusal({"--thread-spec=1", "-S1"}).find("cannot be together with --thread-spec"), std::string::npos);
  EXPECT_NE(Refusal({}, {"SBATCH_CORE_SPEC=1", "SBATCH_THREAD_SPEC=1"}), "");
  const auto spec = Asked({"-S2"}, {"SBATCH_THREAD_SPEC=1"});
  ASSERT_TRUE(spec) << "the command line replaces the environment";
  EXPECT_EQ(slurm::Value(*spec, "core-spec"), "2");
  EXPECT_EQ(slurm::Value(*spec, "thread-spec"), std::nullopt);
}

TEST(SlurmRules, TimeMinMustFitBeforeTheDeadline) {
  EXPECT_NE(Refusal({"--deadline=now+1hour", "--time-min=120"}).find("Invalid time-min"), std::string::npos);
  EXPECT_NE(Refusal({"--time-min=120", "--deadline=now+1hour"}).find("Invalid time-min"), std::string::npos);
  EXPECT_NE(Refusal({"--begin=now+50minutes", "--deadline=now+1hour", "--time-min=11"}), "");
  EXPECT_EQ(Refusal({"--deadline=now+1hour", "--time-min=30"}), "");
}

TEST(SlurmRules, TimeMinLetsTheDeadlineShortenTheTimeLimit) {
  const auto limit = [](const std::vector<std::string>& words) {
    auto spec = Asked(words);
    EXPECT_TRUE(spec);
    if (!spec) return Duration(0);
    FitTimeLimit(*spec, kTestNow);
    return spec->time_limit;
  };
  EXPECT_EQ(limit({"--deadline=now+1hour", "-t120", "--time-min=20"}), 0min) << "it becomes the time left at the start";
  EXPECT_EQ(limit({"--begin=now+5", "--deadline=now+600", "-t100", "--time-min=9"}), 0min);
  EXPECT_EQ(limit({"--deadline=now+1hour", "--time-min=20"}), 0min) << "without a limit as well";
  EXPECT_EQ(limit({"--deadline=now+1hour", "-t30", "--time-min=20"}), 30min);
  EXPECT_EQ(limit({"--deadline=now+1hour", "-t120"}), 120min) << "refused at the submission";
}

TEST(SlurmRules, ExportedNamesMayHaveDots) {
  const auto spec = Asked({"--export=TEST_ENV_1.28=123"});
  ASSERT_TRUE(spec) << spec.error().message;
  EXPECT_EQ(spec->extra_environment, std::vector<std::string>{"TEST_ENV_1.28=123"});
  EXPECT_NE(Refusal({"--export=1A=2"}), "");
  EXPECT_NE(Refusal({"--export=A B=2"}), "");
  EXPECT_NE(Refusal({"--export=A.B"}), "") << "a name alone is that of a shell's variable";
}

TEST(SlurmRules, ATimeOfDayMayComeBeforeTheDay) {
  const auto at = [](std::string_view text) { return ParseMoment(text, kTestNow, Duration(0)); };
  ASSERT_TRUE(at("noon-tomorrow"));
  EXPECT_EQ(*at("noon-tomorrow"), *at("tomorrow") + 12h);
  EXPECT_EQ(*at("16:30-tomorrow"), *at("tomorrow") + 16h + 30min);
  EXPECT_EQ(*at("23:59-today"), *at("tomorrow") - 1min);
  EXPECT_FALSE(at("late-tomorrow"));
}

TEST(SlurmRules, SrunTakesTheNumberOfTasksFromTheEnvironment) {
  ParseContext around = TestParseContext();
  around.environment = {"SLURM_NPROCS=5", "SLURM_OVERCOMMIT=1"};
  JobSpec spec;
  ASSERT_TRUE(ApplyCommandEnvironment("SLURM_", around, spec));
  EXPECT_EQ(slurm::Value(spec, "ntasks"), "5");
  EXPECT_TRUE(slurm::Value(spec, "overcommit"));
}

}  // namespace slurm_rules_test
}  // namespace divvy::dialect
