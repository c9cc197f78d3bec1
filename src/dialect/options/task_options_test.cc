#include "dialect/options/task_options.h"

#include <gtest/gtest.h>

#include "base/text.h"
#include "dialect/options/job_options.h"

namespace divvy::dialect {
namespace task_options_test {

JobSpec Spec(const std::string& words) {
  JobSpec spec;
  const ParseContext nowhere;
  const auto split = ShellSplit(words).value_or(std::vector<std::string>());
  const auto parsed = ParseOptions(JobOptions(spec, nowhere), split, {true, true, false});
  EXPECT_TRUE(parsed) << (parsed ? "" : parsed.error().message);
  if (parsed) spec.command = parsed->after_dashes;
  CompleteTasks(spec);
  return spec;
}

using Words = std::vector<std::string>;

TEST(TaskOptions, TheJobGetsTheGpusOfAllItsTasks) {
  EXPECT_EQ(Spec("--tasks 4 --gpus-per-task 2 -- x").request.gpus, 8);
  EXPECT_EQ(Spec("--gpus-per-task 2 --tasks 4 --gpus 8 -- x").request.gpus, 8);
  EXPECT_TRUE(CheckTasks(Spec("--tasks 4 --gpus-per-task 2 -- x")));
  EXPECT_FALSE(CheckTasks(Spec("--tasks 4 --gpus-per-task 2 --gpus 6 -- x")));
  EXPECT_EQ(Spec("--tasks 65536 --gpus-per-task 2 -- x").request.gpus, 131'072) << "machines enough will do";
  EXPECT_EQ(Spec("--tasks 4 -- x").request.gpus, 0);
}

TEST(TaskOptions, TasksWithTheirOwnGpusMayRunOnSeveralNodes) {
  EXPECT_TRUE(Spec("--tasks 4 --gpus-per-task 2 -- x").request.spreads_tasks);
  EXPECT_FALSE(Spec("--tasks 4 --gpus-per-task 2 --gpus 8 -- x").request.spreads_tasks) << "--gpus is of one machine";
  EXPECT_FALSE(Spec("--gpus-per-task 2 -- x").request.spreads_tasks);
  EXPECT_FALSE(Spec("--tasks 4 -- x").request.spreads_tasks);
}

TEST(TaskOptions, EachNodeHasATaskAndItsPartOfTheGpus) {
  EXPECT_EQ(Spec("--nodes 3 --gpus 2 -- x").request.tasks, 3);
  EXPECT_EQ(Spec("--nodes 3 --tasks 6 -- x").request.tasks, 6);
  const JobSpec spec = Spec("--nodes 2 --tasks 3 --gpus-per-task 2 -- x");
  EXPECT_EQ(spec.request.gpus, 4) << "two tasks on the first machine";
  EXPECT_FALSE(spec.request.spreads_tasks);
  EXPECT_TRUE(CheckTasks(spec));
  EXPECT_FALSE(CheckTasks(Spec("--nodes 2 --tasks 4 --gpus-per-task 2 --gpus 3 -- x")));
  EXPECT_TRUE(StartsTasks(Spec("--nodes 2 -- x")));
}

TEST(TaskOptions, ACommandWithSeveralTasksIsStartedByAStep) {
  const JobSpec spec = Spec("--tasks 2 --gpus-per-task 1 --gpu-bind single --no-kill --label-output -o 'o-%2t' -- x y");
  EXPECT_TRUE(StartsTasks(spec));
  EXPECT_EQ(TaskStarter("/bin/divvy", spec, spec.command),
            (Words{"/bin/divvy", "run", "--tasks=2", "--gpus-per-task=1", "--gpu-bind=single", "--no-kill",
                   "--label-output", "--output=o-%2t", "--", "x", "y"}));
  EXPECT_EQ(TaskStarter("d", Spec("--tasks 2 -o out-%j -- x"), {"x"}), (Words{"d", "run", "--tasks=2", "--", "x"}))
      << "one file is the job's own";
}

TEST(TaskOptions, ScriptsAndSlurmJobsAreStartedOnce) {
  EXPECT_FALSE(StartsTasks(Spec("--tasks 1 -- x")));
  JobSpec script = Spec("--tasks 2 -- x");
  script.script = "#!/bin/sh\n";
  script.command.clear();
  EXPECT_FALSE(StartsTasks(script));
  JobSpec slurm = Spec("--tasks 2 -- x");
  slurm.dialect = Dialect::kSlurm;
  EXPECT_FALSE(StartsTasks(slurm));
}

TEST(TaskOptions, InvalidBindingsAreRefused) {
  JobSpec spec;
  const ParseContext nowhere;
  EXPECT_FALSE(ParseOptions(JobOptions(spec, nowhere), Words{"--gpu-bind", "sideways"}));
  EXPECT_FALSE(ParseOptions(JobOptions(spec, nowhere), Words{"--gpus-per-task", "0"}));
}

TEST(TaskOptions, FindsFileNamePatternsWithATaskNumber) {
  EXPECT_TRUE(NamesTask("out-%t"));
  EXPECT_TRUE(NamesTask("%j-%3t.txt"));
  EXPECT_FALSE(NamesTask("%%t"));
  EXPECT_FALSE(NamesTask("out-%j"));
  EXPECT_FALSE(NamesTask("%"));
}

}  // namespace task_options_test
}  // namespace divvy::dialect
