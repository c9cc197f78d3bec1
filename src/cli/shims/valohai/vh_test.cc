#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "cli/shims/valohai/vh_executions.h"
#include "cli/shims/valohai/vh_run.h"
#include "cli/shims/valohai/vh_snapshot.h"
#include "cli/shims/valohai/vh_text.h"

namespace divvy::cli {
namespace vh_test {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr std::string_view kYaml = R"(- step:
    name: train-model
    image: i
    command: python t.py {parameters}
    parameters:
      - {name: learning_rate, type: float, default: 0.1}
      - {name: layers, type: integer, multiple: repeat, optional: true}
      - {name: fast, type: flag}
      - {name: title, default: x}
    inputs:
      - {name: data, default: a.csv}
- step: {name: test, image: i, command: x}
)";

Result<VhRun> Parse(const Words& words) {
  return ParseVhRun(words, false, [](const std::string&) { return dialect::ParseValohaiYaml(kYaml, "valohai.yaml"); });
}

TEST(VhRun, AcceptsTheDocumentedCommand) {
  auto run = Parse({"train", "--adhoc", "VH_GPUS=4", "--var", "A=b=c", "-v", "B="});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->target, "train");
  EXPECT_TRUE(run->is_adhoc);
  EXPECT_TRUE(run->sets_gpus);
  EXPECT_EQ(run->request.variables,
            (std::vector<std::pair<std::string, std::string>>{{"VH_GPUS", "4"}, {"A", "b=c"}, {"B", ""}}));
}

TEST(VhRun, OptionsAfterTheStepNameBelongToTheStep) {
  auto run = Parse({"-t", "mine", "train", "--learning-rate=0.5", "--layers", "1", "--layers=2", "--fast",
                    "--data=b.csv", "--title=own", "--priority", "--watch"});
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_EQ(run->request.parameters["learning_rate"], Words{"0.5"});
  EXPECT_EQ(run->request.parameters["layers"], (Words{"1", "2"}));
  EXPECT_EQ(run->request.parameters["fast"], Words{"true"});
  EXPECT_EQ(run->request.parameters["title"], Words{"own"});
  EXPECT_EQ(run->request.inputs["data"], Words{"b.csv"});
  EXPECT_EQ(run->request.title, "mine");
  EXPECT_EQ(run->request.priority, 1);
  EXPECT_TRUE(run->is_watched);
  EXPECT_EQ(Parse({"train", "--no-fast"})->request.parameters["fast"], Words{"false"});
  EXPECT_EQ(Parse({"train", "--priority", "3"})->request.priority, 3);
}

TEST(VhRun, NamesTheNearestStepWhenItRefuses) {
  struct Case {
    Words words;
    std::string_view part;
  };
  const Case cases[] = {{{"train", "--learning-rat=1"}, "did you mean --learning_rate?"},
                        {{"train", "--learning-rate=fast"}, "'fast' is not a number"},
                        {{"--lr=1", "train"}, "a step's own options come after its name"},
                        {{"trian"}, "there is no step 'trian'; there is train-model, test"},
                        {{"t"}, "could be the steps train-model, test"},
                        {{"train", "again"}, "is an unexpected argument"},
                        {{"train", "--var", "1A=2"}, "is not NAME=VALUE"},
                        {{"train", "--var"}, "--var needs a value"},
                        {{"train", "--adhoc=1"}, "takes no value"},
                        {{"train", "-z"}, "unknown option -z"},
                        {{"train", "--layers=1.5"}, "is not a whole number"},
                        {{"train", "--priority=-1"}, "is not a number from 0"}};
  for (const Case& one : cases) {
    auto run = Parse(one.words);
    ASSERT_FALSE(run) << one.part;
    EXPECT_NE(run.error().message.find(one.part), std::string::npos) << run.error().message;
  }
}

TEST(VhText, ReadsCountersAsNumbersRangesAndLatest) {
  const std::vector<std::uint64_t> known = {2, 3, 5, 8};
  using Ids = std::vector<std::uint64_t>;
  EXPECT_EQ(*ParseCounters(Words{"#3"}, known), Ids{3});
  EXPECT_EQ(*ParseCounters(Words{"1-5", "!3"}, known), (Ids{2, 5}));
  EXPECT_EQ(*ParseCounters(Words{"1-5 !3 latest"}, known), (Ids{2, 5, 8}));
  EXPECT_EQ(*ParseCounters(Words{"6-7"}, known), Ids{});
  for (const char* wrong : {"4", "x", "5-1", "0", "", "-"}) {
    auto ids = ParseCounters(Words{wrong}, known);
    EXPECT_TRUE(!ids || ids->empty()) << wrong;
  }
}

TEST(VhText, MetadataShowsTheLastValueOfEveryKey) {
  auto metadata = LastMetadata(
      "starting\n{\"loss\": 0.5, \"epoch\": 1}\nnoise {\"loss\": 9}\n{\"loss\": 0.25, \"name\": \"a\\\"b\", \"list\": "
      "[1, {\"x\": 2}]}\n{broken\n");
  EXPECT_EQ(metadata, (std::map<std::string, std::string>{
                          {"loss", "0.25"}, {"epoch", "1"}, {"name", "a\"b"}, {"list", "[1, {\"x\": 2}]"}}));
  EXPECT_TRUE(FlatObject("{\"a\": 1} tail").empty());
  EXPECT_TRUE(FlatObject("{\"a\": bare}").empty());
}

TEST(VhText, TablesHaveSixFormats) {
  const std::vector<Words> rows = {{"#", "Step"}, {"12", "a;b"}};
  EXPECT_EQ(RenderVhTable(rows, VhFormat::kHuman), "#   Step\n12  a;b\n");
  EXPECT_EQ(RenderVhTable(rows, VhFormat::kCsv), "#,Step\n12,a;b\n");
  EXPECT_EQ(RenderVhTable(rows, VhFormat::kTsv), "#\tStep\n12\ta;b\n");
  EXPECT_EQ(RenderVhTable(rows, VhFormat::kScsv), "#;Step\n12;\"a;b\"\n");
  EXPECT_EQ(RenderVhTable(rows, VhFormat::kPsv), "#|Step\n12|a;b\n");
  EXPECT_EQ(RenderVhTable(rows, VhFormat::kJson), "[\n  {\"#\": 12, \"Step\": \"a;b\"}\n]\n");
  EXPECT_FALSE(ParseVhFormat("xml"));
}

TEST(VhText, SubcommandsMayBeAbbreviated) {
  const std::string_view verbs[] = {"run", "list", "logs", "summarize"};
  EXPECT_EQ(*ResolveVerb("r", verbs, "exec"), "run");
  EXPECT_EQ(*ResolveVerb("mar", verbs, "exec"), "summarize");
  EXPECT_NE(ResolveVerb("l", verbs, "exec").error().message.find("could be list, logs"), std::string::npos);
  EXPECT_NE(ResolveVerb("rnu", verbs, "exec").error().message.find("did you mean 'run'?"), std::string::npos);
}

TEST(VhExecutions, AreListedNewestFirst) {
  wire::JobView first, second;
  first.id = JobId(3);
  first.name = "a";
  first.state = "succeeded";
  first.start_time = 10;
  first.end_time = 75;
  second.id = JobId(4);
  second.name = "b";
  second.state = "running";
  EXPECT_EQ(ExecutionRows({first, second}, 100), (std::vector<Words>{{"#", "Status", "Step", "Duration", "URL"},
                                                                     {"4", "started", "b", "-", "-"},
                                                                     {"3", "complete", "a", "00:01:05", "-"}}));
  EXPECT_EQ(SummaryRows({first, second}, {{{"loss", "1"}}, {{"acc", "2"}, {"_time", "x"}}}, 100)[1],
            (Words{"3", "complete", "a", "00:01:05", "", "1"}));
}

TEST(Ignore, RulesMatchGitignoreSemantics) {
  IgnoreRules rules;
  rules.Add("*.log\n# note\n/build\ndata/\n!keep.log\ndocs/**/tmp\na?[0-9]\n", "");
  rules.Add("secret\n", "sub");
  EXPECT_TRUE(rules.Ignores("x.log", false));
  EXPECT_TRUE(rules.Ignores("deep/x.log", false));
  EXPECT_FALSE(rules.Ignores("keep.log", false));
  EXPECT_TRUE(rules.Ignores("build", true));
  EXPECT_FALSE(rules.Ignores("sub/build", true));
  EXPECT_TRUE(rules.Ignores("sub/data", true));
  EXPECT_FALSE(rules.Ignores("data", false));
  EXPECT_TRUE(rules.Ignores("docs/a/b/tmp", true));
  EXPECT_TRUE(rules.Ignores("ab7", false));
  EXPECT_FALSE(rules.Ignores("abx", false));
  EXPECT_TRUE(rules.Ignores("sub/secret", false));
  EXPECT_FALSE(rules.Ignores("secret", false));
}

class SnapshotTest : public ::testing::Test {
 protected:
  SnapshotTest() {
    std::string pattern = testing::TempDir() + "divvy-snapshot-XXXXXX";
    root_ = ::mkdtemp(pattern.data());
  }
  ~SnapshotTest() override { fs::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text;
  }
  fs::path root_;
};

TEST_F(SnapshotTest, CopiesFilesThatAreNotIgnored) {
  Write("p/train.py", "x");
  Write("p/.git/config", "x");
  Write("p/data/big.bin", "x");
  Write("p/sub/.gitignore", "*.tmp\n");
  Write("p/sub/a.tmp", "x");
  Write("p/sub/a.py", "x");
  Write("p/.valohaiignore", "data/\n");
  auto snapshot = CopyProject(root_ / "p", root_ / "copy");
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_TRUE(snapshot->is_copied) << snapshot->reason;
  EXPECT_TRUE(fs::exists(root_ / "copy/train.py"));
  EXPECT_TRUE(fs::exists(root_ / "copy/sub/a.py"));
  for (const char* left : {"copy/.git", "copy/data", "copy/sub/a.tmp"}) EXPECT_FALSE(fs::exists(root_ / left)) << left;
}

TEST_F(SnapshotTest, RunsALargeProjectInPlace) {
  Write("p/a", std::string(2000, 'x'));
  auto snapshot = CopyProject(root_ / "p", root_ / "copy", {.bytes = 1000, .files = 10});
  ASSERT_TRUE(snapshot);
  EXPECT_FALSE(snapshot->is_copied);
  EXPECT_NE(snapshot->reason, "");
  EXPECT_FALSE(fs::exists(root_ / "copy"));
}

TEST_F(SnapshotTest, DoesNotCopyEarlierSnapshotsBelowTheProject) {
  Write("p/train.py", "x");
  ASSERT_TRUE(CopyProject(root_ / "p", root_ / "p/home/executions/1/repository"));
  auto second = CopyProject(root_ / "p", root_ / "p/home/executions/2/repository");
  ASSERT_TRUE(second);
  EXPECT_EQ(second->files, 1U);
}

}  // namespace vh_test
}  // namespace divvy::cli
