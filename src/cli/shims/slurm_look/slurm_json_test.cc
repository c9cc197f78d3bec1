#include "cli/shims/slurm_look/slurm_json.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace divvy::cli::slurm {
namespace slurm_json_test {

TEST(SlurmYaml, ContainsTheSameAsTheJson) {
  EXPECT_EQ(YamlOf(R"~({"meta":{"errors":[]},"jobs":[{"job_id":17,"name":"train it","nodes":"n1","hold":false,)~"
                   R"~("gres_detail":["gpu:2(IDX:0-1)"],"array_task_id":null},{"job_id":18,"time":"10:00"}]})~"),
            "%YAML 1.1\n---\n"
            "meta:\n  errors: []\n"
            "jobs:\n"
            "- job_id: 17\n  name: \"train it\"\n  nodes: n1\n  hold: false\n  gres_detail:\n  - \"gpu:2(IDX:0-1)\"\n"
            "  array_task_id: null\n"
            "- job_id: 18\n  time: \"10:00\"\n...\n");
  EXPECT_EQ(YamlOf(R"~({"a":"no","b":"","c":"-","d":"12","e":[[1,2],{}]})~"),
            "%YAML 1.1\n---\na: \"no\"\nb: \"\"\nc: \"-\"\nd: \"12\"\ne:\n- - 1\n  - 2\n- {}\n...\n");
}

TEST(SlurmJson, WholeNumbersOfTextRecordsAreJsonNumbers) {
  const std::string json =
      RecordsJson("sshare", "shares", {{{"account", " vision"}, {"rawshares", "3"}, {"x", "0.5"}}});
  EXPECT_NE(json.find(R"~("shares":[{"account":"vision","rawshares":3,"x":"0.5"}])~"), std::string::npos) << json;
}

TEST(SlurmJson, AcceptsEveryReleaseNameAndListShowsTheParsers) {
  AnswerForm form;
  std::vector<dialect::Option> options;
  AddAnswerForms(options, form, true);
  ASSERT_TRUE(dialect::ParseOptions(options, std::vector<std::string>{"--json=v0.0.40"}));
  EXPECT_TRUE(form.is_json && !form.is_yaml && !form.lists_parsers);
  EXPECT_EQ(form.schema, JsonSchema::k40);
  ASSERT_TRUE(dialect::ParseOptions(options, std::vector<std::string>{"--yaml", "--json=list"}));
  EXPECT_TRUE(form.is_yaml && form.lists_parsers);
}

}  // namespace slurm_json_test
}  // namespace divvy::cli::slurm
