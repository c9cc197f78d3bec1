#include "daemon/requests/resubmit_form.h"

#include <gtest/gtest.h>

namespace divvy {
namespace resubmit_form_test {

constexpr Time kNow = Time(std::chrono::seconds(1'000'000));

JobRecord RecordOf(const JobSpec& spec) {
  JobRecord record;
  record.name = spec.name;
  record.request = spec.request;
  record.end_by = spec.end_by;
  record.retry_delay = spec.retry_delay;
  return record;
}

TEST(ResubmitForm, ContainsLaterChangesOfTheJob) {
  JobSpec spec;
  spec.command = {"true"};
  spec.name = "true";
  spec.priority = 3;
  spec.labels["slurm.qos"] = "high";
  JobRecord record = RecordOf(spec);
  record.priority = -2;
  record.request.gpus = 4;
  record.time_limit = std::chrono::minutes(5);
  record.full_limit = std::chrono::hours(1);  // Shortened by a deadline in that run.
  const wire::AgainView view = AskedAgain(record, spec, Duration(0), kNow);
  EXPECT_EQ(view.spec.priority, -2);
  EXPECT_EQ(view.spec.request.gpus, 4);
  EXPECT_EQ(view.spec.time_limit, Duration(std::chrono::hours(1)));
  EXPECT_EQ(view.spec.labels, spec.labels);
  EXPECT_TRUE(view.left_out.empty());
}

TEST(ResubmitForm, OmitsAndNamesOptionsThatNoLongerApply) {
  JobSpec spec;
  spec.command = {"true"};
  spec.begin = kNow;
  spec.end_by = kNow - std::chrono::hours(1);
  spec.is_foreground = spec.wants_pty = true;
  spec.grace = std::chrono::seconds(30);
  const wire::AgainView view = AskedAgain(RecordOf(spec), spec, std::chrono::seconds(30), kNow);
  EXPECT_EQ(view.left_out, (std::vector<std::string>{"--begin: the time has passed", "--deadline: the time has passed",
                                                     "its caller's terminal: this one prints to a log"}));
  EXPECT_EQ(view.spec.begin, kNoTime);
  EXPECT_EQ(view.spec.end_by, kNoTime);
  EXPECT_FALSE(view.spec.is_foreground);
  EXPECT_FALSE(view.spec.wants_pty);
  EXPECT_EQ(view.spec.grace, JobSpec().grace) << "that was the server's own";
}

TEST(ResubmitForm, AnArrayElementIsResubmittedAlone) {
  JobSpec spec;
  spec.command = {"true"};
  spec.array = ArraySpec{*IndexRanges::Parse("3,5", "x"), 1};
  spec.parameters = {{"lr", {"a", "b"}, 0}};
  JobRecord record = RecordOf(spec);
  record.array = JobId(1);
  record.array_ordinal = 3;  // lr=b, index 5.
  const wire::AgainView view = AskedAgain(record, spec, Duration(0), kNow);
  EXPECT_EQ(view.spec.array->indices.ToString(), "5");
  EXPECT_EQ(view.spec.parameters, (std::vector<Parameter>{{"lr", {"b"}, -1}}));
}

TEST(ResubmitForm, OptionsInTheScriptItselfAreNotRepeated) {
  JobSpec spec;
  spec.script = "#!/bin/sh\n# DIVVY --retries 3\ntrue\n";
  spec.retries = 3;
  spec.request.gpus = 2;
  const wire::WordsAnswer answer = SaidInWords(spec, {});
  ASSERT_EQ(answer.words.size(), 2u);
  EXPECT_EQ(answer.words[0].text, "--gpus 2");
  EXPECT_FALSE(answer.words[0].is_of_script);
  EXPECT_EQ(answer.words[1].text, "--retries 3");
  EXPECT_TRUE(answer.words[1].is_of_script);
  EXPECT_EQ(answer.line, "divvy submit --gpus 2 script.sh");
}

TEST(ResubmitForm, CommandLineNamesTheWorkingDirectoryOfTheJob) {
  JobSpec spec;
  spec.command = {"true"};
  dialect::ParseContext around;
  around.home = "/home/ada";
  EXPECT_EQ(SaidInWords(spec, around).line, "divvy submit --chdir /home/ada -- true");
  spec.directory = "/srv";
  EXPECT_EQ(SaidInWords(spec, around).line, "divvy submit --chdir /srv -- true");
}

TEST(ResubmitForm, ScriptLinesAreReadAndTheirErrorsNamed) {
  const wire::ScriptAnswer good = ReadScriptLines({"#!/bin/sh\n#SBATCH --gres=gpu:3\ntrue\n", "/srv"}, {});
  EXPECT_EQ(good.spec.request.gpus, 3);
  EXPECT_EQ(good.spec.dialect, Dialect::kSlurm);
  EXPECT_EQ(good.spec.name, "") << "it has no file whose name it could have";
  const wire::ScriptAnswer bad = ReadScriptLines({"#!/bin/sh\n# DIVVY --gpus many\ntrue\n", ""}, {});
  EXPECT_NE(bad.refusal.find("script.sh line 2: --gpus"), std::string::npos) << bad.refusal;
  // No file of the daemon's machine is read.
  const wire::ScriptAnswer file = ReadScriptLines({"#!/bin/sh\n# DIVVY --param-file /etc/passwd\ntrue\n", ""}, {});
  EXPECT_NE(file.refusal.find("cannot be read here"), std::string::npos) << file.refusal;
}

}  // namespace resubmit_form_test
}  // namespace divvy
