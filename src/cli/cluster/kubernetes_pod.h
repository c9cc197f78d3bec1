// The Kubernetes pod that runs an agent and so is a node of divvy: its options, the pod template that is merged into
// it, and the privileges that a template may not request.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "wire/messages/provider_messages.h"

namespace divvy::cli {

/// The labels by which pods are found.
inline constexpr std::string_view kClusterLabel = "divvy.dev/cluster";
inline constexpr std::string_view kTokenLabel = "divvy.dev/token";

/// The container that runs the agent.
inline constexpr std::string_view kContainer = "divvy";

/// The options of a provider and of one of its shapes, in this order.
struct KubernetesOptions {
  std::string name_space;  // Not for shapes; empty: the namespace of the credentials.
  std::string image;
  std::map<std::string, std::string> node_selector;
  std::vector<std::string> tolerations;  // "gpu=yes:NoSchedule"
  std::string service_account;
  std::string template_file;
  bool allows_privileges = false;
  std::string divvy_path;  // divvy in the image; empty: the image's entry point is divvy.
  std::string emulate;
};
/// Parses the options of a provider and those of one of its shapes, in this order. Errors name the option and the
/// allowed values.
Result<KubernetesOptions> ReadKubernetesOptions(const std::vector<std::string>& of_provider,
                                                const std::vector<std::string>& of_shape);

/// Returns the name of the pod and of its secret. It depends on the request's token only, so a repeated call finds the
/// same pod.
std::string PodNameOf(const std::string& token);

/// The pod as JSON. `pod_template`: JSON of a pod whose fields are the defaults; "{}": none. Lists of things with names
/// (containers, volumes, env) are merged by name. The fields that make the pod a node of divvy always win. Fails if the
/// template is no pod, or asks for privileges and the options do not allow that: what the Pod Security Standards'
/// profile "baseline" forbids, privilege escalation, all sysctls, and all profiles of SELinux and AppArmor that the
/// pod names itself.
Result<std::string> PodText(const wire::ProviderOrder& order, const KubernetesOptions& options,
                            const std::string& pod_template);
/// Returns the secret as JSON. It contains the line with which the agent joins the controller. Kubernetes removes the
/// secret together with the pod, which owns it.
std::string SecretText(const wire::ProviderOrder& order, const std::string& pod_uid);

}  // namespace divvy::cli
