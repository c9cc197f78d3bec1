#include "cli/cluster/kubernetes_pod.h"

#include <gtest/gtest.h>

namespace divvy::cli {
namespace kubernetes_pod_test {

wire::ProviderOrder Order() {
  wire::ProviderOrder order;
  order.cluster = "divvy3f0c";
  order.provider = "k8s";
  order.token = "0123456789abcdef0123456789abcdef";
  order.name = "k8s-1";
  order.join = "10.0.0.1:7433#id.secret";
  order.shape = wire::ProviderOrderShape();
  order.shape->gpu_model = "H100-80GB";
  order.shape->gpus = 8;
  order.shape->cpus = 64;
  order.shape->memory_bytes = 1 << 30;
  return order;
}

KubernetesOptions Options() {
  KubernetesOptions options;
  options.image = "registry.lab/divvy:1";
  return options;
}

std::string Pod(const std::string& pod_template, const KubernetesOptions& options = Options()) {
  return PodText(Order(), options, pod_template).value();
}

bool Has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string OptionError(std::vector<std::string> of_provider, std::vector<std::string> of_shape = {}) {
  const auto options = ReadKubernetesOptions(of_provider, of_shape);
  return options ? std::string() : options.error().message;
}

TEST(KubernetesPod, RequestsWhatTheShapeHas) {
  const std::string pod = Pod("{}");
  EXPECT_TRUE(Has(pod, R"("limits":{"cpu":"64","memory":"1073741824","nvidia.com/gpu":"8"})")) << pod;
  EXPECT_TRUE(Has(pod, R"("name":"divvy-0123456789abcdef0123456789abcdef")")) << pod;
  EXPECT_TRUE(Has(pod, R"("divvy.dev/cluster":"divvy3f0c","divvy.dev/token":"0123456789abcdef0123456789abcdef")"));
  EXPECT_TRUE(Has(pod, R"("restartPolicy":"Never")"));
  EXPECT_TRUE(Has(pod, R"("automountServiceAccountToken":false)"));
  EXPECT_FALSE(Has(pod, "activeDeadlineSeconds"));
}

TEST(KubernetesPod, NeverContainsTheJoinLine) {
  EXPECT_FALSE(Has(Pod("{}"), "secret\"}"));
  EXPECT_FALSE(Has(Pod("{}"), Order().join));
  const std::string secret = SecretText(Order(), "uid-1");
  EXPECT_TRUE(Has(secret, R"("stringData":{"join":"10.0.0.1:7433#id.secret"})")) << secret;
  EXPECT_TRUE(Has(secret, R"("ownerReferences":[{"apiVersion":"v1","kind":"Pod")")) << secret;
}

TEST(KubernetesPod, LifetimeIsADeadline) {
  wire::ProviderOrder order = Order();
  order.shape->max_lifetime_s = 3600;
  EXPECT_TRUE(Has(PodText(order, Options(), "{}").value(), R"("activeDeadlineSeconds":3600)"));
  order.shape->max_lifetime_s = 1e12;
  EXPECT_TRUE(Has(PodText(order, Options(), "{}").value(), R"("activeDeadlineSeconds":2147483647)"));
}

TEST(KubernetesPod, EmulatedGpusAreNotRequested) {
  KubernetesOptions options = Options();
  options.emulate = "8xH100-80GB";
  const std::string pod = Pod("{}", options);
  EXPECT_FALSE(Has(pod, "nvidia.com/gpu"));
  EXPECT_TRUE(Has(pod, R"("--emulate","8xH100-80GB")"));
}

TEST(KubernetesPod, TemplateIsMergedByName) {
  const std::string pod = Pod(R"({"metadata":{"labels":{"team":"vision","divvy.dev/token":"forged"},"name":"mine"},
    "spec":{"restartPolicy":"Always","priorityClassName":"low","tolerations":[{"key":"a"}],
    "containers":[{"name":"log","image":"log:1"},
                  {"name":"divvy","image":"other:2","command":["sh"],"env":[{"name":"A","value":"b"}]}]}})");
  EXPECT_TRUE(Has(pod, R"("team":"vision","divvy.dev/token":"0123456789abcdef0123456789abcdef")")) << pod;
  EXPECT_FALSE(Has(pod, "mine"));
  EXPECT_TRUE(Has(pod, R"("restartPolicy":"Never","priorityClassName":"low","tolerations":[{"key":"a"}])")) << pod;
  EXPECT_TRUE(Has(pod, R"({"name":"log","image":"log:1"},{"name":"divvy","image":"registry.lab/divvy:1",)")) << pod;
  EXPECT_TRUE(Has(pod, R"("command":["sh"],"env":[{"name":"A","value":"b"},{"name":"DIVVY_HOME")")) << pod;
  KubernetesOptions options = Options();
  options.divvy_path = "/opt/divvy";
  EXPECT_TRUE(Has(Pod(R"({"spec":{"containers":[{"name":"divvy","command":["sh"]}]}})", options),
                  R"("command":["/opt/divvy"])"));
}

TEST(KubernetesPod, ImageMayComeFromTheTemplate) {
  EXPECT_FALSE(PodText(Order(), KubernetesOptions(), "{}"));
  EXPECT_TRUE(PodText(Order(), KubernetesOptions(), R"({"spec":{"containers":[{"name":"divvy","image":"i"}]}})"));
}

TEST(KubernetesPod, NullInATemplateIsAMissingField) {
  const std::string pod = Pod(R"({"spec":{"automountServiceAccountToken":null,"enableServiceLinks":null,
    "containers":[{"name":"divvy","securityContext":{"allowPrivilegeEscalation":null}}]}})");
  EXPECT_TRUE(Has(pod, R"("automountServiceAccountToken":false)")) << pod;
  EXPECT_TRUE(Has(pod, R"("enableServiceLinks":false)")) << pod;
  EXPECT_TRUE(Has(pod, R"("allowPrivilegeEscalation":false)")) << pod;
}

TEST(KubernetesPod, PrivilegesThatAreAllowedDoNotContradictThemselves) {
  KubernetesOptions allowed = Options();
  allowed.allows_privileges = true;
  for (const std::string context : {R"({"privileged":true})", R"({"capabilities":{"add":["SYS_ADMIN"]}})"}) {
    const std::string text = R"({"spec":{"containers":[{"name":"divvy","securityContext":)" + context + "}]}}";
    EXPECT_FALSE(Has(Pod(text, allowed), "allowPrivilegeEscalation")) << context;
  }
  EXPECT_TRUE(Has(Pod("{}", allowed), R"("allowPrivilegeEscalation":false)"));
}

TEST(KubernetesPod, TemplateThatAsksForPrivilegesIsRefused) {
  const auto container = [](const std::string& context) {
    return R"({"spec":{"containers":[{"name":"x","securityContext":)" + context + "}]}}";
  };
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"spec":{"hostNetwork":true}})", "spec.hostNetwork"},
      {R"({"spec":{"hostPID":true}})", "spec.hostPID"},
      {R"({"spec":{"hostIPC":"true"}})", "spec.hostIPC"},
      {R"({"spec":{"volumes":[{"name":"a"},{"name":"r","hostPath":{"path":"/"}}]}})", "spec.volumes.hostPath"},
      {R"({"spec":{"securityContext":{"seccompProfile":{"type":"Unconfined"}}}})",
       "spec.securityContext.seccompProfile"},
      {container(R"({"privileged":true})"), "spec.containers.securityContext.privileged"},
      {container(R"({"allowPrivilegeEscalation":true})"), "spec.containers.securityContext.allowPrivilegeEscalation"},
      {container(R"({"capabilities":{"add":["SYS_ADMIN"]}})"), "spec.containers.securityContext.capabilities.add"},
      {container(R"({"procMount":"Unmasked"})"), "spec.containers.securityContext.procMount"},
      {R"({"spec":{"initContainers":[{"name":"x","securityContext":{"privileged":true}}]}})",
       "spec.initContainers.securityContext.privileged"},
      {R"({"spec":{"securityContext":{"sysctls":[{"name":"kernel.msgmax","value":"1"}]}}})",
       "spec.securityContext.sysctls"},
      {R"({"spec":{"securityContext":{"seLinuxOptions":{"type":"spc_t"}}}})",
       "spec.securityContext.seLinuxOptions.type"},
      {container(R"({"seLinuxOptions":{"role":"sysadm_r"}})"), "spec.containers.securityContext.seLinuxOptions.role"},
      {R"({"metadata":{"annotations":{"container.apparmor.security.beta.kubernetes.io/divvy":"unconfined"}}})",
       "metadata.annotations.container.apparmor.security.beta.kubernetes.io/divvy"},
      {R"({"metadata":{"annotations":{"seccomp.security.alpha.kubernetes.io/pod":"unconfined"}}})",
       "metadata.annotations.seccomp.security.alpha.kubernetes.io/pod"},
      {R"({"spec":{"containers":[{"name":"x","livenessProbe":{"httpGet":{"host":"10.0.0.9","port":80}}}]}})",
       "spec.containers.livenessProbe.httpGet.host"},
      {R"({"spec":{"containers":[{"name":"x","lifecycle":{"preStop":{"tcpSocket":{"host":"10.0.0.9"}}}}]}})",
       "spec.containers.lifecycle.preStop.tcpSocket.host"},
      {R"({"spec":{"containers":[{"name":"x","ports":[{"hostPort":80}]}]}})", "spec.containers.ports.hostPort"}};
  KubernetesOptions allowed = Options();
  allowed.allows_privileges = true;
  for (const auto& [text, where] : cases) {
    const auto pod = PodText(Order(), Options(), text);
    ASSERT_FALSE(pod) << text;
    EXPECT_EQ(pod.error().message, "the template asks for privileges: " + where +
                                       "; remove it, or allow it with --allow-privileged-template");
    EXPECT_TRUE(PodText(Order(), allowed, text)) << text;
  }
  for (const std::string& harmless : {std::string(R"({"spec":{"hostNetwork":false,"hostPID":null}})"),
                                      container(R"({"privileged":false,"capabilities":{"drop":["ALL"],"add":[]}})"),
                                      container(R"({"seLinuxOptions":{"level":"s0:c1"},"sysctls":[]})"),
                                      std::string(R"({"spec":{"containers":[{"name":"x","readinessProbe":{"httpGet":
                                        {"host":"","port":80}}}]}})")})
    EXPECT_TRUE(PodText(Order(), Options(), harmless)) << harmless;
}

TEST(KubernetesPod, TemplateOfAnotherKindIsRefused) {
  EXPECT_FALSE(PodText(Order(), Options(), "[]"));
  EXPECT_FALSE(PodText(Order(), Options(), R"({"kind":"Deployment"})"));
  EXPECT_FALSE(PodText(Order(), Options(), R"({"containers":[]})"));
}

TEST(KubernetesOptions, AreReadFromProviderAndShape) {
  const auto options = ReadKubernetesOptions({"--namespace=jobs", "--image=a", "--node-selector=gpu=h100"},
                                             {"--image=b", "--toleration=gpu=yes:NoSchedule", "--toleration=x"});
  ASSERT_TRUE(options) << options.error().message;
  EXPECT_EQ(options->name_space, "jobs");
  EXPECT_EQ(options->image, "b");
  EXPECT_EQ(options->node_selector.at("gpu"), "h100");
  const std::string pod = Pod("{}", *options);
  EXPECT_TRUE(Has(pod, R"({"effect":"NoSchedule","key":"gpu","operator":"Equal","value":"yes"})")) << pod;
  EXPECT_TRUE(Has(pod, R"({"key":"x","operator":"Exists"})")) << pod;
}

TEST(KubernetesOptions, WrongOnesAreRefused) {
  EXPECT_TRUE(Has(OptionError({"--partition=gpu"}), "unknown option --partition: expected --namespace"));
  EXPECT_TRUE(Has(OptionError({"--image"}), "option --image needs a value"));
  EXPECT_TRUE(Has(OptionError({}, {"--namespace=a"}), "belongs to the provider"));
  EXPECT_TRUE(Has(OptionError({"--node-selector=gpu"}), "expected --node-selector=LABEL=VALUE"));
  EXPECT_TRUE(Has(OptionError({"--toleration=gpu:Never"}), "expected KEY[=VALUE][:EFFECT]"));
}

}  // namespace kubernetes_pod_test
}  // namespace divvy::cli
