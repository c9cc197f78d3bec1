#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/text.h"
#include "dialect/gflow/gflow.h"
#include "dialect/options/job_options.h"
#include "dialect/options/test_surroundings.h"

namespace divvy::dialect {
namespace script_test {

JobSpec Read(const std::string& text, const std::string& path = "job.sh") {
  JobSpec spec;
  const Status read = ReadScript(text, path, TestParseContext(), spec);
  EXPECT_TRUE(read) << text << ": " << read.error().message;
  return spec;
}

TEST(Scripts, TheTextIsUnchangedAndTheJobHasTheFilesName) {
  const std::string text = "#!/bin/sh\ntrue\n";
  const JobSpec spec = Read(text, "/data/runs/train.sh");
  EXPECT_EQ(spec.script, text);
  EXPECT_EQ(spec.name, "train.sh");
  EXPECT_EQ(spec.dialect, Dialect::kNative);
  EXPECT_TRUE(spec.notes.empty());
}

TEST(Scripts, WithoutAnInterpreterItRunsInBash) { EXPECT_EQ(Read("true\n").script, "#!/bin/bash\ntrue\n"); }

TEST(Scripts, OptionLinesMustPrecedeTheFirstCommand) {
  const JobSpec spec =
      Read("#!/bin/sh\n# DIVVY --gpus 2 --name 'a # b' # words\n\n#DIVVY -t 5\n  # plain\ntrue\n# DIVVY --gpus 4\n");
  EXPECT_EQ(spec.request.gpus, 2);
  EXPECT_EQ(spec.name, "a # b");
  EXPECT_EQ(spec.time_limit, 5min);
  EXPECT_EQ(spec.notes, std::vector<std::string>{
                            "line 7 is ignored: options after the first command are not read; move the line up"});
}

TEST(Scripts, GflowLinesSelectTheDialectAndAllApply) {
  const JobSpec spec = Read(
      "#!/bin/bash\n# GFLOW --gpus 1 --depends-on @~1\n# GFLOW --array 1-3 --name train\n# DIVVY --gpus 2\ntrue\n");
  EXPECT_EQ(spec.dialect, Dialect::kGflow);
  ASSERT_EQ(spec.dependencies.size(), 1u);
  EXPECT_EQ(spec.dependencies[0].job, JobId(40));
  EXPECT_EQ(spec.array->indices.size(), 3u);
  EXPECT_EQ(spec.name, "train");
  EXPECT_EQ(spec.request.gpus, 2) << "divvy's own lines win";
}

TEST(Gflow, OptionsFillTheSpecification) {
  const ParseContext around = TestParseContext();
  JobSpec spec;
  const auto words = *ShellSplit(
      "--gpus=2 -m 16384 --gpu-memory 24G -t 90 -p 20 --depends-on-any 12,@ --no-auto-cancel --array 1-3 --param "
      "lr=1,2 --max-concurrent 2 "
      "--max-retries 1 -J train -P vision --begin now+1h --param-file grid.csv --notify-email a@x.org --notify-email "
      "b@x.org "
      "--notify-on job_failed,completed --auto-close");
  auto parsed = ParseOptions(GflowOptions(spec, around), words);
  ASSERT_FALSE(parsed) << "lr is both in --param and in the file";
  spec = JobSpec();
  auto fewer = words;
  std::erase(fewer, "--param");
  std::erase(fewer, "lr=1,2");
  parsed = ParseOptions(GflowOptions(spec, around), fewer);
  ASSERT_TRUE(parsed) << parsed.error().message;
  ASSERT_TRUE(FinishGflow(spec, around));
  EXPECT_EQ(spec.request.gpus, 2);
  EXPECT_EQ(spec.request.memory, 16_GiB) << "a bare number counts MB";
  EXPECT_EQ(spec.request.gpu_memory, 24_GiB);
  EXPECT_EQ(spec.time_limit, 90min);
  EXPECT_EQ(GflowPriority(spec.priority), 20);
  EXPECT_TRUE(spec.needs_any_dependency);
  ASSERT_EQ(spec.dependencies.size(), 2u);
  EXPECT_EQ(spec.dependencies[1].job, JobId(41));
  EXPECT_TRUE(spec.keeps_waiting);
  EXPECT_EQ(ElementCount(spec).value(), 6u);
  EXPECT_EQ(spec.group_limit, 2);
  EXPECT_FALSE(spec.group.empty());
  EXPECT_EQ(spec.retries, 1);
  EXPECT_EQ(spec.name, "train");
  EXPECT_EQ(spec.project, "vision");
  EXPECT_EQ(spec.begin, kTestNow + 1h);
  EXPECT_EQ(spec.labels.at("gflow.notify_email"), "a@x.org,b@x.org");
  const JobSpec before = spec;
  ASSERT_TRUE(FinishGflow(spec, around));
  EXPECT_EQ(spec, before) << "finishing twice does no harm";
}

TEST(Gflow, AMissingPriorityIsTheDefault) {
  EXPECT_EQ(GflowPriority(Read("# GFLOW --gpus 1\ntrue\n").priority), kGflowDefaultPriority);
}

TEST(Gflow, SharingIsAFractionByMemoryAndNeedsBothSizes) {
  const JobSpec spec = Read("# GFLOW --shared --gpus 1 --gpu-memory 20G\ntrue\n");
  EXPECT_TRUE(spec.notes.empty());
  EXPECT_EQ(spec.request.portion.memory, 20_GiB);
  EXPECT_EQ(spec.request.gpu_memory, Bytes());
  JobSpec without;
  EXPECT_FALSE(ReadScript("# GFLOW --shared --gpu-memory 20G\ntrue\n", "job.sh", TestParseContext(), without));
}

TEST(Gflow, ACommandRunsInsideItsCondaEnvironmentOnce) {
  JobSpec spec;
  spec.command = {"/usr/bin/python", "train.py", "a b"};
  spec.labels["gflow.conda_env"] = "my env";
  ASSERT_TRUE(FinishGflow(spec, TestParseContext()));
  spec.labels["gflow.conda_env"] = "other";
  ASSERT_TRUE(FinishGflow(spec, TestParseContext()));
  ASSERT_EQ(spec.command.size(), 7u);
  EXPECT_NE(spec.command[2].find("conda activate other"), std::string::npos);
  EXPECT_EQ(spec.command[2].find("my env"), std::string::npos);
  EXPECT_EQ(spec.command[6], "a b");
  EXPECT_EQ(spec.name, "python");
}

/// A fake conda in its own directory that prints its arguments.
class Conda : public ::testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("divvy-conda-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    Write("conda", "#!/bin/sh\necho 'conda() { [ \"$2\" != missing ] && INSIDE=$2 && export INSIDE; }'\n");
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(directory_ / name) << text;
    std::filesystem::permissions(directory_ / name, std::filesystem::perms::owner_all);
  }
  /// The output of the script, run as a file with two arguments.
  std::string Run(JobSpec spec, const std::string& environment) {
    spec.labels["gflow.conda_env"] = environment;
    EXPECT_TRUE(FinishGflow(spec, TestParseContext()));
    EXPECT_TRUE(FinishGflow(spec, TestParseContext()));
    Write("job", spec.script);
    const std::string command =
        "CONDA_EXE=" + (directory_ / "conda").string() + " " + (directory_ / "job").string() + " one 'two three' 2>&1";
    std::FILE* pipe = ::popen(command.c_str(), "r");
    std::string out;
    for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) out += static_cast<char>(c);
    const int status = ::pclose(pipe);
    return out + (status == 0 ? "" : "status " + std::to_string(WEXITSTATUS(status)));
  }

  std::filesystem::path directory_;
};

TEST_F(Conda, ScriptsOfAnyShellRunInsideTheEnvironment) {
  for (const std::string shell : {"/bin/bash", "/bin/sh", "/bin/bash -eu", "/usr/bin/env bash"}) {
    JobSpec spec;
    spec.script = "#!" + shell + "\necho \"$INSIDE $2\"\n";
    EXPECT_EQ(Run(spec, "my env"), "my env two three\n") << shell;
  }
}

TEST_F(Conda, AScriptOfAnotherInterpreterRunsInsideTheEnvironment) {
  JobSpec spec;
  spec.script = "#!/usr/bin/awk -f\nBEGIN { print ENVIRON[\"INSIDE\"], ARGV[2], \"$HOME `x`\" }\n";
  EXPECT_EQ(Run(spec, "vision"), "vision two three $HOME `x`\n");
}

TEST_F(Conda, AMissingEnvironmentEndsTheJobBeforeItsFirstCommand) {
  JobSpec spec;
  spec.script = "#!/bin/bash\necho started\n";
  EXPECT_EQ(Run(spec, "missing"), "divvy: the conda environment cannot be activated: missing\nstatus 1");
}

/// Compares tests/data/explain/NAME.sh with NAME.txt. DIVVY_REWRITE=1 writes the .txt; keep the result only if its diff
/// is understood.
TEST(Explain, OutputMatchesTheGoldenFiles) {
  int seen = 0;
  for (const auto& entry : std::filesystem::directory_iterator(DIVVY_SOURCE_DIR "/tests/data/explain")) {
    if (entry.path().extension() != ".sh") continue;
    ++seen;
    const auto slurp = [](const std::filesystem::path& path) {
      std::ostringstream out;
      out << std::ifstream(path).rdbuf();
      return out.str();
    };
    ParseContext around = TestParseContext();
    around.resolve_job = nullptr;
    const ScriptExplanation explanation = ExplainScript(slurp(entry.path()), entry.path().filename().string(), around);
    const std::string got = explanation.text + (explanation.had_errors ? "exit 1\n" : "exit 0\n");
    std::filesystem::path golden = entry.path();
    golden.replace_extension(".txt");
    if (std::getenv("DIVVY_REWRITE") != nullptr) std::ofstream(golden) << got;
    EXPECT_EQ(got, slurp(golden)) << entry.path();
  }
  EXPECT_GE(seen, 6);
}

}  // namespace script_test
}  // namespace divvy::dialect
