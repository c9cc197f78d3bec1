#include "dialect/options/job_options.h"

#include <gtest/gtest.h>

#include <set>

#include "base/text.h"
#include "dialect/options/option_values.h"
#include "dialect/options/test_surroundings.h"
#include "model/job_record.h"

namespace divvy::dialect {
namespace job_options_test {

/// The spec after one level of options. A parse error fails the test.
JobSpec Read(const std::string& line, JobSpec spec = {}) {
  const ParseContext around = TestParseContext();
  const auto parsed = ParseOptions(JobOptions(spec, around), *ShellSplit(line));
  EXPECT_TRUE(parsed) << line << ": " << parsed.error().message;
  return spec;
}

std::string Dependencies(const JobSpec& spec) {
  std::string out;
  for (const Dependency& dependency : spec.dependencies)
    out += (out.empty() ? "" : spec.needs_any_dependency ? "?" : ",") + FormatDependency(dependency);
  return out;
}

TEST(JobOptions, EachOptionSetsItsField) {
  const JobSpec spec = Read(
      "-g 2 --gpu-type 'h100 | a100&80gb' --gpu-memory 40G -c 8 --memory 64G -n 4 -t 90 --begin now+1h -p -5 -J train "
      "-P vision "
      "--comment 'two words' --group sweep --group-limit 3 -a 0-9%4 --retries 2 --retry-delay 1m -H -o out/%j.log -e "
      "err.log -i in.txt "
      "--open-mode append -D sub --env A=1 --env B=2 --env A=3 --signal B:USR1@5m --stop-signal INT --grace 1m "
      "--resize-signal USR2 "
      "--placement spread --topology nvlink:required --preemptible requeue --team nlp "
      "--requeue-after-reboot --keep-waiting --queue-anyway --pty --pool gpu -A acc "
      "-N 2 -C 'ib&nvme' --nodelist n[1-3] --exclude n3");
  JobSpec want;
  want.request = {.gpus = 2,
                  .gpu_type = "h100|a100&80gb",
                  .gpu_memory = 40_GiB,
                  .cpus = 8,
                  .memory = 64_GiB,
                  .tasks = 4,
                  .topology = TopologyNeed::kNvlink,
                  .requires_topology = true,
                  .nodes = 2,
                  .constraint = "ib&nvme",
                  .node_list = {"n1", "n2", "n3"},
                  .excluded_nodes = {"n3"}};
  want.labels["divvy.tasks"] = "4";  // So that --nodes does not set it.
  want.preemptible = Preemptible::kRequeue;
  want.is_preemptible_set = true;
  want.team = "nlp";
  want.resize_signal = 12;
  want.time_limit = 90min;
  want.begin = kTestNow + 1h;
  want.priority = -5;
  want.name = "train";
  want.project = "vision";
  want.comment = "two words";
  want.group = "sweep";
  want.group_limit = 3;
  want.array = ArraySpec{IndexRanges(0, 9), 4};
  want.retries = 2;
  want.retry_delay = 1min;
  want.is_held = true;
  want.output = "out/%j.log";
  want.error = "err.log";
  want.input = "in.txt";
  want.appends_output = true;
  want.directory = "/home/ada/work/sub";
  want.extra_environment = {"B=2", "A=3"};
  want.warn = {.signal = 10, .before = 5min, .batch_only = true};
  want.stop_signal = 2;
  want.grace = 1min;
  want.placement = PlacementStrategy::kSpread;
  want.is_placement_set = true;
  want.requeues_after_reboot = true;
  want.keeps_waiting = true;
  want.queues_anyway = true;
  want.wants_pty = true;
  want.pool = "gpu";
  want.account = "acc";
  EXPECT_EQ(spec, want);
}

TEST(JobOptions, TheGraceOfAStaleGangMayBeNegativeOrNever) {
  EXPECT_EQ(Read("-N 2").stale_grace, 0s);
  EXPECT_EQ(Read("-N 2 --stale-grace 90").stale_grace, 90s);
  for (const std::string endless : {"never", "-1", "-5m"})
    EXPECT_EQ(Read("-N 2 --stale-grace " + endless).stale_grace, -1ns) << endless;
  EXPECT_EQ(Summarise(Read("-N 2 -g 4 --stale-grace 5m")),
            "2 nodes with 4 GPUs each, continues for 5 min without lost nodes");
}

TEST(JobOptions, AGpuRangeMakesAnElasticJob) {
  const auto range = [](const JobSpec& spec) {
    return std::to_string(spec.request.gpus) + " " + std::to_string(spec.request.max_gpus);
  };
  EXPECT_EQ(range(Read("--gpus 2..8")), "2 8");
  EXPECT_EQ(range(Read("--gpus 64..64")), "64 0") << "no range at all";
  EXPECT_EQ(range(Read("--gpus ' 1 .. 4 '")), "1 4");
  EXPECT_EQ(range(Read("--gpus 2..8 --gpus 3")), "3 0") << "the last one counts";
  EXPECT_EQ(range(Read("--env VH_GPUS=3", Read("--gpus 2..8"))), "3 0");
  EXPECT_EQ(Summarise(Read("--gpus 2..8 --gpu-type 'h100 * 1.0 | a100*0.55' --topology numa")),
            "2 to 8 GPUs (h100*1.0|a100*0.55), on one NUMA node if possible");
  EXPECT_EQ(Summarise(Read("--gpus 4 --topology nvlink:required --preemptible pause")),
            "4 GPUs, joined by NVLink (required), may be preempted (paused)");
}

TEST(JobOptions, PlacementAndPreemptionAreReadByName) {
  for (const PlacementStrategy placement :
       {PlacementStrategy::kBest, PlacementStrategy::kSequential, PlacementStrategy::kRandom, PlacementStrategy::kPack,
        PlacementStrategy::kSpread}) {
    EXPECT_EQ(Read("--placement " + std::string(Name(placement))).placement, placement);
  }
  for (const Preemptible preemptible : {Preemptible::kNever, Preemptible::kPause, Preemptible::kRequeue}) {
    const JobSpec spec = Read("--preemptible " + std::string(Name(preemptible)));
    EXPECT_EQ(spec.preemptible, preemptible);
    EXPECT_TRUE(spec.is_preemptible_set);
  }
}

TEST(JobOptions, ReadsAGracePeriod) {
  EXPECT_EQ(Read("").grace, Duration(-1));
  EXPECT_EQ(Read("--grace 30s").grace, 30s);
}

TEST(JobOptions, NamesAndLettersAreUniqueAndEachOptionHasHelp) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  std::set<std::string_view> names;
  std::set<char> letters;
  for (const Option& option : JobOptions(spec, around)) {
    EXPECT_TRUE(names.insert(option.name).second) << option.name;
    for (std::string_view alias : option.aliases) EXPECT_TRUE(names.insert(alias).second) << alias;
    if (option.letter != 0) {
      EXPECT_TRUE(letters.insert(option.letter).second) << option.letter;
    }
    EXPECT_FALSE(option.help.empty()) << option.name;
    EXPECT_FALSE(option.help.ends_with('.')) << option.name;
    EXPECT_EQ(option.value_name.empty(), option.takes == Takes::kNothing) << option.name;
  }
}

TEST(JobOptions, EachOptionHasAGroup) {
  JobSpec spec;
  const ParseContext around = TestParseContext();
  std::set<OptionGroup> groups;
  std::string others;
  for (const Option& option : JobOptions(spec, around)) {
    groups.insert(option.group);
    if (option.group == OptionGroup::kOther) others += std::string(option.name) + " ";
  }
  EXPECT_EQ(groups.size(), 12u);
  EXPECT_FALSE(groups.contains(OptionGroup::kNone));
  EXPECT_EQ(others, "project team comment account ");
}

TEST(JobOptions, VhGpusCountsOnlyIfSetForTheJobAndNotOverridden) {
  EXPECT_EQ(Read("").request.gpus, 0) << "the caller's own VH_GPUS=7 is not a request";
  EXPECT_EQ(Read("--env VH_GPUS=2").request.gpus, 2);
  EXPECT_EQ(Read("--env VH_GPUS=2 --gpus 1").request.gpus, 1);
  EXPECT_EQ(Read("--gpus 1 --env VH_GPUS=2").request.gpus, 1);
  EXPECT_EQ(Read("--env VH_GPUS=2", Read("--gpus 4")).request.gpus, 2) << "a later level wins";
}

TEST(JobOptions, RepeatableOptionsAddUpWithinALevelAndReplaceTheLevelBefore) {
  const JobSpec first = Read("-d afterok:1 --after 2,3 --param lr=1,2 --param seed=0:1");
  EXPECT_EQ(Dependencies(first), "afterok:1,afterany:2,afterany:3");
  const JobSpec second = Read("--after 9 --param lr=5", first);
  EXPECT_EQ(Dependencies(second), "afterany:9");
  ASSERT_EQ(second.parameters.size(), 2u);
  EXPECT_EQ(second.parameters[0].name, "seed");
  EXPECT_EQ(second.parameters[1].values, std::vector<std::string>{"5"});
}

TEST(JobOptions, ABeginTimeInThePastIsANote) {
  const JobSpec spec = Read("--begin 2026-01-01");
  ASSERT_EQ(spec.notes.size(), 1u);
  EXPECT_EQ(spec.notes[0], "--begin 2026-01-01 has passed: starts as soon as it can");
}

TEST(JobOptions, ExportKeepsTheNamedVariables) {
  const auto kept = [](const std::string& what) {
    JobSpec spec = Read("--export " + what);
    spec.capture.environment = {"A=1", "B=2", "HOME=/home/ada", "PATH=/bin"};
    CompleteCapture(spec);
    CompleteCapture(spec);
    return Join(spec.capture.environment, " ") + " + " + Join(spec.extra_environment, " ");
  };
  EXPECT_EQ(kept("ALL"), "A=1 B=2 HOME=/home/ada PATH=/bin + ");
  EXPECT_EQ(kept("ALL,C=3"), "A=1 B=2 HOME=/home/ada PATH=/bin + C=3");
  EXPECT_EQ(kept("NONE"), "HOME=/home/ada PATH=/bin + ");
  EXPECT_EQ(kept("B"), "B=2 HOME=/home/ada PATH=/bin + ");
  EXPECT_EQ(kept("B,C=3"), "B=2 HOME=/home/ada PATH=/bin + C=3");
}

TEST(Dependencies, ReadsEveryForm) {
  for (const auto& [text, want] : std::vector<std::pair<std::string, std::string>>{
           {"afterok:12", "afterok:12"},
           {"12", "afterok:12"},
           {"12:13", "afterok:12,afterok:13"},
           {"12,13", "afterok:12,afterok:13"},
           {"afterok:12:13,afterany:14", "afterok:12,afterok:13,afterany:14"},
           {"after:12+5", "after:12+5"},
           {"after:12+90s", "after:12+90s"},
           {"after:12", "after:12"},
           {"singleton", "singleton"},
           {"SINGLETON,AfterNotOk:3", "singleton,afternotok:3"},
           {"@", "afterok:41"},
           {"afterany:@~1:12", "afterany:40,afterany:12"},
           {"afterok:12?afterany:13", "afterok:12?afterany:13"},
           {"12_3", "afterok:12_3"},
           {"12_*", "afterok:12"},
           {"12?12", "afterok:12"},
           {"12,12", "afterok:12"},
           {" 12 , 13 ", "afterok:12,afterok:13"},
           {"pretrain_v2", "afterok:39"},
           {"afterany:12:pretrain_v2", "afterany:12,afterany:39"},
           {"aftercorr:5", "aftercorr:5"},
           {"aftercorr:5_3,afterok:5", "afterok:5_3,afterok:5"}}) {
    JobSpec spec;
    const Status read = ParseDependencies(text, TestParseContext(), spec);
    ASSERT_TRUE(read) << text << ": " << read.error().message;
    EXPECT_EQ(Dependencies(spec), want) << text;
    JobSpec again;
    ASSERT_TRUE(ParseDependencies(Dependencies(spec), TestParseContext(), again));
    EXPECT_EQ(again.dependencies, spec.dependencies) << "what is printed is read back";
  }
}

TEST(Completeness, AcceptsCompleteCommandLines) {
  for (const std::string line : {"--gpus 1", "--signal USR1@60 --time 1h", "--param lr=1,2 --name-template 'a-{lr}'",
                                 "--group g --group-limit 2", "--gpus 1 --gpu-type h100", "--array 0-3999999"}) {
    JobSpec spec = Read(line);
    spec.command = {"true"};
    const Status complete = CheckComplete(spec);
    EXPECT_TRUE(complete) << line << ": " << complete.error().message;
  }
}

TEST(Completeness, ASweepCannotRunInTheForeground) {
  JobSpec spec = Read("--array 0-3");
  spec.command = {"true"};
  spec.is_foreground = true;
  EXPECT_FALSE(CheckComplete(spec));
}

TEST(Summary, ShowsHowTheRequestWasUnderstood) {
  EXPECT_EQ(Summarise(JobSpec()), "no GPU");
  EXPECT_EQ(Summarise(Read("-g 2 --gpu-type h100 -t 90 --memory 20G --after 12")),
            "2 GPUs (h100), 20 GiB of memory, at most 1 h 30 min, after job 12 ends");
  EXPECT_EQ(Summarise(Read("-a 0-99%8 --param lr=1,2 -p 3 -H --retries 1")),
            "no GPU, 200 elements over lr, 8 at a time, priority 3, held, 1 retry");
  EXPECT_EQ(Summarise(Read("--begin 2026-03-05T08:00 -d '5?6'")),
            "no GPU, after job 5 succeeds or after job 6 succeeds, not before 2026-03-05 07:00:00 UTC");
}

}  // namespace job_options_test
}  // namespace divvy::dialect
