// The pod that is a node: its options, the template that is merged into it, and what a template may not ask for.
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
/// Errors name the option, and what it may be.
Result<KubernetesOptions> ReadKubernetesOptions(const std::vector<std::string>& of_provider,
                                                const std::vector<std::string>& of_shape);

/// The name of the pod and of its secret: the same for each call with a token.
std::string PodNameOf(const std::string& token);

/// The pod as JSON. `pod_template`: JSON of a pod whose fields are the defaults; "{}": none. Lists of things with names
/// (containers, volumes, env) are merged by name. The fields that make the pod a node of divvy always win. Fails if the
/// template is no pod, or asks for privileges and the options do not allow that: what the Pod Security Standards'
/// profile "baseline" forbids, privilege escalation, all sysctls, and all profiles of SELinux and AppArmor that the
/// pod names itself.
Result<std::string> PodText(const wire::ProviderOrder& order, const KubernetesOptions& options,
                            const std::string& pod_template);
/// The secret with the join line, which belongs to the pod and is removed with it. JSON.
std::string SecretText(const wire::ProviderOrder& order, const std::string& pod_uid);

}  // namespace divvy::cli
