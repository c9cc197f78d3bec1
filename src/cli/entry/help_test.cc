// Checks the texts for users and shells against the commands themselves.
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "cli/client/commands.h"
#include "cli/client/words.h"

namespace divvy::cli {
namespace help_test {

/// No daemon runs at this home, so completions do not depend on the machine.
class Shell : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "divvy-help-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
    ::setenv("DIVVY_HOME", home_.c_str(), 1);
  }
  void TearDown() override { std::filesystem::remove_all(home_); }

  std::vector<std::string> Complete(const Words& words) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(CompleteMain(words), 0);
    ::alarm(0);
    std::istringstream out(testing::internal::GetCapturedStdout());
    std::vector<std::string> candidates;
    for (std::string line; std::getline(out, line);) candidates.push_back(line.substr(0, line.find('\t')));
    return candidates;
  }

  std::string home_;
};

using Lines = std::vector<std::string>;

TEST(Help, EveryCommandHasHelp) {
  std::set<std::string_view> names;
  for (const Command& command : Commands()) {
    EXPECT_TRUE(names.insert(command.name).second) << command.name << " is there twice";
    EXPECT_NE(command.run, nullptr) << command.name;
    if (command.is_hidden) continue;
    EXPECT_FALSE(command.summary.empty()) << command.name;
    EXPECT_FALSE(command.summary.ends_with('.')) << command.name;
    EXPECT_TRUE(command.usage.starts_with("divvy " + std::string(command.name))) << command.usage;
    EXPECT_FALSE(command.group.empty()) << command.name;
    for (const Example& example : command.examples)
      EXPECT_NE(example.command.find("divvy"), std::string_view::npos) << example.command;
  }
}

TEST(Help, NamesEveryOptionOnceWithItsMeaning) {
  for (const Command& command : Commands()) {
    if (command.options == nullptr) continue;
    const std::string text = HelpText(command, true);
    const std::string plain = HelpText(command);
    std::set<std::string_view> names;
    std::set<char> letters;
    for (const dialect::Option& option : command.options()) {
      EXPECT_TRUE(names.insert(option.name).second) << command.name << " --" << option.name << " is there twice";
      for (std::string_view alias : option.aliases)
        EXPECT_TRUE(names.insert(alias).second) << command.name << " --" << alias << " is there twice";
      EXPECT_TRUE(option.letter == 0 || letters.insert(option.letter).second)
          << command.name << " -" << option.letter << " is there twice";
      EXPECT_NE(text.find(OptionForm(option)), std::string::npos) << command.name << " --" << option.name;
      EXPECT_NE(plain.find("--" + std::string(option.name)), std::string::npos) << command.name << " --" << option.name;
      EXPECT_FALSE(option.help.empty()) << command.name << " --" << option.name;
    }
  }
}

std::string Printed(const Words& words) {
  testing::internal::CaptureStdout();
  EXPECT_EQ(Main(words), 0);
  return testing::internal::GetCapturedStdout();
}

bool Lists(const std::string& text, const Command& command) {
  return text.find("\n  " + std::string(command.name) + " ") != std::string::npos;
}

TEST(Help, AllListsEveryCommandThatIsNotHidden) {
  const std::string text = Printed({"divvy", "help", "--all"});
  for (const Command& command : Commands()) EXPECT_EQ(Lists(text, command), !command.is_hidden) << command.name;
  EXPECT_EQ(Printed({"divvy", "--help-all"}), text);
}

TEST(Help, OverviewFitsOneScreenWithoutRareCommands) {
  const std::string text = Printed({"divvy", "help"});
  for (const Command& command : Commands())
    EXPECT_EQ(Lists(text, command), !command.is_hidden && !command.is_rare) << command.name;
  EXPECT_LT(std::ranges::count(text, '\n'), 50);
  EXPECT_EQ(Printed({"divvy"}), text);
  EXPECT_EQ(Printed({"divvy", "--help"}), text);
}

TEST(Help, SubmitAndRunDescribeTenOptionsAndNameTheOthers) {
  for (const std::string name : {"submit", "run"}) {
    const std::vector<OptionSection> sections = OptionSections(*FindCommand(name));
    EXPECT_EQ(sections.size(), 12u) << name;
    EXPECT_EQ(sections.front().heading, "Most used") << name;
    EXPECT_EQ(sections.front().options.size(), 10u) << name;
    const std::string plain = Printed({"divvy", name, "--help"});
    EXPECT_NE(plain.find("--gpus N"), std::string::npos) << name;
    EXPECT_EQ(plain.find("--image IMAGE"), std::string::npos) << name;
    EXPECT_NE(plain.find("  Containers         --image --mount"), std::string::npos) << name;
    EXPECT_NE(plain.find("divvy " + name + " --help-all"), std::string::npos) << name;
    const std::string all = Printed({"divvy", name, "--help-all"});
    EXPECT_NE(all.find("\nContainers:\n      --image IMAGE"), std::string::npos) << name;
    EXPECT_EQ(Printed({"divvy", "help", "--all", name}), all);
  }
}

TEST(Help, IsPrintedBehindOtherOptionsToo) {
  for (const std::string name : {"submit", "run"}) {
    const std::string help = Printed({"divvy", name, "--help"});
    EXPECT_EQ(Printed({"divvy", name, "--gpus", "1", "--help"}), help) << name;
    EXPECT_EQ(Printed({"divvy", name, "-g", "1", "--time=1h", "--hold", "--help"}), help) << name;
  }
}

TEST(Help, ShortTablesHaveNoTitles) {
  EXPECT_EQ(HelpText(*FindCommand("queue"), true), HelpText(*FindCommand("queue")));
  EXPECT_EQ(OptionSections(*FindCommand("update")).size(), 1u);
}

TEST(Help, NamesTheNearestCommandForAMistypedOne) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(HelpMain({"sumbit"}), 2);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("divvy help submit"), std::string::npos);
}

TEST(WrapText, KeepsLinesWithinTheirWidth) {
  EXPECT_EQ(WrapText("one two three", "  ", 9), "  one two\n  three\n");
  EXPECT_EQ(WrapText("a averyverylongword b", "", 6), "a\naveryverylongword\nb\n");
  EXPECT_EQ(WrapText("", "  ", 9), "  \n");
}

TEST_F(Shell, CompletesCommands) {
  EXPECT_EQ(Complete({"sub"}), Lines{"submit"});
  EXPECT_EQ(Complete({"internal"}), Lines{});
}

TEST_F(Shell, CompletesOptions) {
  EXPECT_EQ(Complete({"submit", "--gpu-m"}), (Lines{"--gpu-memory", "--gpu-memory-limit"}));
  EXPECT_EQ(Complete({"queue", "--gpus", "--heade"}), Lines{});
  EXPECT_EQ(Complete({"queue", "--hel"}), Lines{"--help"});
  EXPECT_EQ(Complete({"submit", "--hel"}), (Lines{"--help", "--help-all"}));
}

TEST_F(Shell, CompletesOptionValues) {
  EXPECT_EQ(Complete({"queue", "--state", "ru"}), Lines{"running"});
  EXPECT_EQ(Complete({"queue", "--state", "queued,ru"}), Lines{"queued,running"});
  EXPECT_EQ(Complete({"queue", "--state=queued,ru"}), Lines{"--state=queued,running"});
  EXPECT_EQ(Complete({"submit", "--placement", "r"}), Lines{"random"});
  EXPECT_EQ(Complete({"submit", "--topology", "nv"}), (Lines{"nvlink", "nvlink:required"}));
  EXPECT_EQ(Complete({"submit", "--preemptible", "p"}), Lines{"pause"});
  EXPECT_EQ(Complete({"submit", "--output", ""}), Lines{":files"});
  EXPECT_EQ(Complete({"submit", "--gpus", ""}), Lines{});
}

TEST_F(Shell, LeavesTheJobsOwnArgumentsToItsCommand) {
  EXPECT_EQ(Complete({"run", ""}), Lines{":command 2"});
  EXPECT_EQ(Complete({"run", "--gpus", "1", "python", "tr"}), Lines{":command 4"});
  EXPECT_EQ(Complete({"submit", "--gpus=1", "--", "py"}), Lines{":command 4"});
  EXPECT_EQ(Complete({"submit", "tr"}), Lines{":files"});
}

TEST_F(Shell, CompletesNothingWithoutADaemon) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(Complete({"cancel", ""}), Lines{});
  EXPECT_EQ(Complete({"submit", "--dependency", "afterok:"}), Lines{});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST_F(Shell, CompletesGpuSubcommands) { EXPECT_EQ(Complete({"gpus", "re"}), Lines{"restrict"}); }

TEST_F(Shell, EachShellGetsItsOwnScript) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(CompletionMain({shell}), 0);
    EXPECT_NE(testing::internal::GetCapturedStdout().find("internal-complete"), std::string::npos) << shell;
  }
  EXPECT_EQ(CompletionMain({"tcsh"}), 2);
}

TEST_F(Shell, ManPagesContainNoAccidentalRoffRequests) {
  ASSERT_EQ(ManMain({home_ + "/man"}), 0);
  const std::set<std::string> macros = {".TH", ".SH", ".SS", ".TP", ".B", ".I", ".BR", ".IR", ".\\\""};
  int pages = 0;
  for (const auto& entry : std::filesystem::directory_iterator(home_ + "/man")) {
    ++pages;
    std::ifstream page(entry.path());
    for (std::string line; std::getline(page, line);) {
      EXPECT_FALSE(line.empty()) << entry.path() << " has an empty line, which roff prints as it likes";
      const bool is_request = line.starts_with('.') || line.starts_with('\'');
      EXPECT_TRUE(!is_request || macros.contains(line.substr(0, line.find(' ')))) << entry.path() << ": " << line;
    }
  }
  EXPECT_GT(pages, 20);
}

}  // namespace help_test
}  // namespace divvy::cli
