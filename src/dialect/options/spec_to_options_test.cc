#include "dialect/options/spec_to_options.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/text.h"
#include "dialect/options/components.h"
#include "dialect/options/portion_options.h"
#include "dialect/options/task_options.h"
#include "dialect/options/test_surroundings.h"

namespace divvy::dialect {
namespace spec_to_options_test {

Status Finish(JobSpec& spec) {
  CompleteTasks(spec);
  CompletePortion(spec);
  return {};
}

/// Parses the options as divvy submit does, with `command` to run.
JobSpec Read(const std::string& options, JobSpec spec = {}, std::vector<std::string> command = {"train", "two words"}) {
  const ParseContext around = TestParseContext();
  const auto parsed = ReadComponents(
      JobOptions(spec, around), *ShellSplit(options), ParseRules{true, true, false}, spec,
      [&](JobSpec& component) { return JobOptions(component, around); }, Finish);
  EXPECT_TRUE(parsed) << options << ": " << parsed.error().message;
  EXPECT_TRUE(Finish(spec));
  if (spec.script.empty()) spec.command = std::move(command);
  return spec;
}

std::string Line(const JobSpec& spec) {
  const auto line = CommandLineOf(spec, "train.sh", TestParseContext());
  return line ? *line : "refused: " + line.error().message;
}

TEST(SpecToOptions, EachOptionIsWrittenAsItWasRead) {
  // CommandLineOf verifies its own result, so getting a line means that nothing was lost.
  for (const std::string options : {
           "--gpus 2 --gpu-type 'h100|a100' --gpu-memory 40G --cpus 8 --memory 64G --time 90m",
           "--gpus 2..8 --resize-signal none",
           "--gpus 0.25 --gpu-limit 0.8 --compute 0.3:1 --idle-park 10m",
           "--gpus 2x0.5 --mps",
           "--gpus 1 --shared --gpu-memory 20G --gpu-memory-limit 40G",
           "--slice 1g.18gb",
           "--slice '>=16G'",
           "--memory 100000001B --time 1.5s",
           "--gpus 1 --time 18s",
           "--nodes 2",
           "--nodes 2 --stale-grace 5m",
           "--nodes 2 --stale-grace never",
           "--gpus 1 --nodes 2 --tasks 4 --topology rack --constraint 'ib&nvme' --nodelist n1,n2,n3 --exclude n3",
           "--tasks 4 --gpus-per-task 1 --gpu-bind single --cpu-bind cores --no-kill --label-output",
           "--topology nvlink:required --placement spread --queue-anyway",
           "--begin 2026-03-02T13:00:00Z --deadline 2026-03-03T16:30:15Z --priority -5 --hold",
           "--dependency 'afterok:12,after:13+90s,singleton' --keep-waiting",
           "--dependency 'afterok:12?afternotok:13_4'",
           "--array '0-9,20-40:5%4' --retries 3 --retry-delay 1m --group g --group-limit 2",
           "--param lr=0.1,0.2 --param seed=1 --name-template 'train-{lr}'",
           "--preemptible requeue --requeue-after-reboot",
           "--output out/%j.log --error err.log --input in.txt --open-mode append --chdir /srv/it --pty",
           "--signal B:SIGUSR1@5m --stop-signal SIGINT --grace 0s",
           "--name 'a b' --pool a,b --team t --project p --comment \"it's two words\" --account acc",
           "--notify end,fail --notify-to ada@lab --on-waste park --no-grow --provider a,b --max-price 3.5 --export "
           "A,B",
           "--export ALL --image pytorch --mount /a:/b:ro --mount /c --container-workdir /w",
           "--private-tmp yes --private-shm no",
           "--env A=1 --env 'B=two words'",
           "--gpus 0 --env VH_GPUS=4",
           "--gpus 1 --name het --time 2h : --nodes 2 --cpus 8 : --gpus 2 --tasks 4 --pool b",
           "",
       }) {
    const JobSpec spec = Read(options);
    const std::string line = Line(spec);
    ASSERT_TRUE(line.starts_with("divvy submit ")) << options << "\n" << line;
    EXPECT_TRUE(line.ends_with(" -- train 'two words'")) << line;
    EXPECT_EQ(line.find("label "), std::string::npos) << line;
  }
}

TEST(SpecToOptions, DurationsAndSizesAreWrittenExactly) {
  EXPECT_EQ(Line(Read("--gpus 1 --time 18s")), "divvy submit --gpus 1 --time 18s -- train 'two words'");
  EXPECT_EQ(Line(Read("--time 90s")), "divvy submit --time 90s -- train 'two words'");
  EXPECT_EQ(Line(Read("--time 2h --memory 1536M")), "divvy submit --memory 1536M --time 2h -- train 'two words'");
  EXPECT_EQ(Line(Read("", {}, {"echo", "a", "&&", ">", "$HOME"})), "divvy submit -- echo a '&&' '>' '$HOME'");
}

TEST(SpecToOptions, EachOptionNamesTheFieldsThatItSets) {
  const auto words = WordsOf(Read("--topology nvlink:required --retries 3 : --cpus 8"), JobSpec());
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[0].text, "--topology nvlink:required");
  EXPECT_EQ(words[0].members, (std::vector<std::string>{"request/topology", "request/requires_topology"}));
  EXPECT_EQ(words[1].text, "--retries 3");
  EXPECT_EQ(words[2].text, ": --cpus 8");
  EXPECT_EQ(words[2].members, (std::vector<std::string>{"request/others"}));
}

TEST(SpecToOptions, OptionsFromTheScriptItselfAreOmitted) {
  JobSpec spec;
  const std::string text = "#!/bin/bash\n#SBATCH --gres=gpu:4 --time=1:00:00\n# DIVVY --hold\ntrue\n";
  ASSERT_TRUE(ReadScript(text, "train.sh", TestParseContext(), spec));
  spec.arguments = {"alpha", "beta gamma"};
  EXPECT_EQ(Line(spec), "divvy submit train.sh alpha 'beta gamma'");
  spec.labels["slurm.submit-host"] = "another";
  EXPECT_EQ(Line(spec), "divvy submit train.sh alpha 'beta gamma'");
  spec.request.gpus = 2;
  EXPECT_EQ(Line(spec), "divvy submit --gpus 2 train.sh alpha 'beta gamma'");
  spec.is_held = false;
  EXPECT_EQ(Line(spec), "refused: the option lines in the script request more than this, and no option can undo that");
}

TEST(SpecToOptions, FieldsWithoutAnOptionAreNamed) {
  JobSpec spec = Read("--gpus 1");
  spec.labels["slurm.qos"] = "high";
  EXPECT_EQ(Line(spec), "refused: divvy submit has no option for: label slurm.qos=high");
  spec = Read("--param lr=0.1,0.2");
  spec.parameters.front().row_group = 1;
  EXPECT_EQ(Line(spec), "refused: divvy submit has no options for exactly this request");
}

}  // namespace spec_to_options_test
}  // namespace divvy::dialect
