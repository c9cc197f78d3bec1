#include "dialect/service/service_file.h"

#include <gtest/gtest.h>

namespace divvy::dialect {
namespace {

std::string ServiceFileError(std::string_view text) {
  const auto entries = ReadServiceFile(text, "services.yaml");
  return entries ? std::string() : entries.error().message;
}

TEST(ServiceFile, KeysBecomeOptions) {
  const auto entries = ReadServiceFile(
      "services:\n"
      "  - name: chat\n"
      "    command: python 'my serve.py'\n"
      "    gpus: 0.5\n"
      "    replicas: 0..8\n"
      "    env: [A=1, B=2]\n"
      "    no-park: true\n"
      "  - name: code\n"
      "    command: [serve, --port, '{port}']\n",
      "services.yaml");
  ASSERT_TRUE(entries) << entries.error().message;
  ASSERT_EQ(entries->size(), 2U);
  EXPECT_EQ(entries->front().command, (std::vector<std::string>{"python", "my serve.py"}));
  EXPECT_EQ(entries->front().options,
            (std::vector<std::string>{"--env=A=1", "--env=B=2", "--gpus=0.5", "--no-park", "--replicas=0..8"}));
  EXPECT_EQ(entries->back().command.back(), "{port}");
}

TEST(ServiceFile, AMistakeIsOneLine) {
  for (const std::string_view text :
       {"services: [{name: a, command: x]\x03\n}]\n", "services: \"\\\n\\q\"",
        "services:\n  - {name: \"a\\nb\", command: x}\n  - {name: \"a\\nb\", command: x}\n"}) {
    const std::string error = ServiceFileError(text);
    EXPECT_FALSE(error.empty()) << text;
    EXPECT_EQ(error.find('\n'), std::string::npos) << error;
  }
}

TEST(ServiceFile, NamesTheLineOfAMistake) {
  EXPECT_EQ(ServiceFileError("services:\n  - name: chat\n"),
            "services.yaml:2: a service: 'chat' needs the key 'command'");
  EXPECT_EQ(ServiceFileError("services:\n  - {name: a, command: x}\n  - {name: a, command: x}\n"),
            "services.yaml:2: service 'a' is there twice; give each service its own name");
  EXPECT_EQ(ServiceFileError("service: []\n"),
            "services.yaml:1: the file: unknown key 'service'; did you mean 'services'?");
  EXPECT_EQ(ServiceFileError("services:\n  - {name: a, command: \"x 'y\"}\n"),
            "services.yaml:2: a service: command has an open quote");
  EXPECT_NE(ServiceFileError("services: [\n"), "");
}

}  // namespace
}  // namespace divvy::dialect
