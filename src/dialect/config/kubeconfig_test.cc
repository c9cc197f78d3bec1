#include "dialect/config/kubeconfig.h"

#include <gtest/gtest.h>

#include "dialect/config/yaml_json.h"

namespace divvy::dialect {
namespace kubeconfig_test {

constexpr std::string_view kFile = R"(apiVersion: v1
kind: Config
current-context: lab
contexts:
- name: other
  context: {cluster: other, user: other}
- name: lab
  context: {cluster: c, user: u, namespace: divvy}
clusters:
- name: c
  cluster: {server: "https://10.0.0.1:6443", certificate-authority-data: LS0tYQ==, tls-server-name: kube}
users:
- name: u
  user: {USER}
)";

std::string WithUser(const std::string& user) {
  std::string text(kFile);
  text.replace(text.find("{USER}"), 6, user);
  return text;
}

std::string ErrorFor(const std::string& text) {
  const auto config = ParseKubeconfig(text);
  return config ? std::string() : config.error().message;
}

TEST(Kubeconfig, CurrentContextIsRead) {
  const auto config = ParseKubeconfig(WithUser("{token: secret}"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->server, "https://10.0.0.1:6443");
  EXPECT_EQ(config->server_name, "kube");
  EXPECT_EQ(config->authorities, "---a");
  EXPECT_EQ(config->name_space, "divvy");
  EXPECT_EQ(config->token, "secret");
}

TEST(Kubeconfig, CertificateMayBeInFiles) {
  const auto config = ParseKubeconfig(WithUser("{client-certificate: /c.pem, client-key: /k.pem}"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->certificate_file, "/c.pem");
  EXPECT_EQ(config->key_file, "/k.pem");
}

TEST(Kubeconfig, WhatIsNotSupportedIsRefusedWithReason) {
  EXPECT_NE(ErrorFor(WithUser("{exec: {command: aws}}")).find("its user has exec, which is not supported"),
            std::string::npos);
  EXPECT_NE(ErrorFor(WithUser("{username: ada, password: secret}")).find("its user has username"), std::string::npos);
  EXPECT_NE(ErrorFor(WithUser("{client-certificate: /c.pem}")).find("no client-key"), std::string::npos);
  EXPECT_NE(ErrorFor(WithUser("{}")).find("its user has no token"), std::string::npos);
  std::string plain = WithUser("{token: secret}");
  plain.replace(plain.find("https:"), 6, "http:");
  EXPECT_NE(ErrorFor(plain).find("must begin with https://"), std::string::npos);
  std::string unsafe = WithUser("{token: secret}");
  unsafe.replace(unsafe.find("tls-server-name: kube"), 21, "insecure-skip-tls-verify: true");
  EXPECT_NE(ErrorFor(unsafe).find("insecure-skip-tls-verify is not supported"), std::string::npos);
  EXPECT_NE(ErrorFor("clusters: []").find("no current-context"), std::string::npos);
}

TEST(Kubeconfig, ErrorsQuoteNoSecret) {
  for (const std::string& text : {std::string("token: secret: secret"), std::string("\"secret"),
                                  WithUser("{client-key-data: sec_ret}"), WithUser("{token: [secret]}")}) {
    const std::string error = ErrorFor(text);
    EXPECT_NE(error, "") << text;
    EXPECT_EQ(error.find("sec"), std::string::npos) << error;
  }
}

TEST(YamlToJson, ScalarsAreTypedAsInJson) {
  EXPECT_EQ(YamlToJson("{a: 1, b: true, c: yes, d: \"1\", e: 1.5e3, f: 0400, g: ~, h: -0.5, i: .5}").value(),
            R"({"a":1,"b":true,"c":"yes","d":"1","e":1.5e3,"f":256,"g":null,"h":-0.5,"i":".5"})");
  EXPECT_EQ(YamlToJson("[\"0400\", 0899, 00]").value(), R"(["0400","0899",0])");
  EXPECT_EQ(YamlToJson("- |\n  a\"b\n- [x, {y: z}]").value(), R"(["a\"b\u000a",["x",{"y":"z"}]])");
  EXPECT_EQ(YamlToJson(R"({"a": [1, "x"]})").value(), R"({"a":[1,"x"]})");
}

TEST(YamlToJson, HostileTextIsRefused) {
  EXPECT_FALSE(YamlToJson("a: ["));
  EXPECT_FALSE(YamlToJson("? [a]\n: b"));
  EXPECT_FALSE(YamlToJson(std::string(100, '[') + std::string(100, ']')));
  // YAML aliases that expand to 10^8 elements.
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 8; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k == 0 ? "" : ", ") + before;
    bomb += "]\n";
  }
  EXPECT_FALSE(YamlToJson(bomb));
}

}  // namespace kubeconfig_test
}  // namespace divvy::dialect
