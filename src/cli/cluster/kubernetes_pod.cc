#include "cli/cluster/kubernetes_pod.h"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <initializer_list>

#include "base/text.h"

namespace divvy::cli {
namespace {

namespace json = boost::json;

constexpr std::string_view kJoinFolder = "/var/run/divvy-join";
constexpr std::string_view kHome = "/var/lib/divvy-agent";
/// Seconds between SIGTERM and SIGKILL. No jobs run on the node any more when divvy destroys it.
constexpr int kGraceSeconds = 30;
/// The API server's limit for activeDeadlineSeconds.
constexpr double kLongestLife = 2'147'483'647;
/// Annotations that choose profiles, as in earlier versions of Kubernetes.
constexpr std::string_view kProfileAnnotations[] = {"container.apparmor.security.beta.kubernetes.io/",
                                                    "container.seccomp.security.alpha.kubernetes.io/",
                                                    "seccomp.security.alpha.kubernetes.io/"};
/// Kinds of lists of containers in a pod.
constexpr std::string_view kContainerLists[] = {"containers", "initContainers", "ephemeralContainers"};

json::string_view View(std::string_view text) { return {text.data(), text.size()}; }

/// Returns the member `key` of `parent`. Replaces it with an empty object if it is missing or of another type.
json::object& ObjectIn(json::object& parent, std::string_view key) {
  json::value& value = parent[View(key)];
  if (!value.is_object()) value = json::object();
  return value.as_object();
}
json::array& ArrayIn(json::object& parent, std::string_view key) {
  json::value& value = parent[View(key)];
  if (!value.is_array()) value = json::array();
  return value.as_array();
}
/// Returns the element of the list with that name. Appends one if there is none.
json::object& Named(json::array& list, std::string_view name) {
  for (json::value& element : list) {
    const json::value* known = element.is_object() ? element.as_object().if_contains("name") : nullptr;
    if (known != nullptr && known->is_string() && known->as_string() == View(name)) return element.as_object();
  }
  json::object& added = list.emplace_back(json::object()).as_object();
  added["name"] = View(name);
  return added;
}
/// Sets the member if it is missing or null; the API server treats null as a missing field.
void SetDefault(json::object& object, std::string_view key, json::value value) {
  json::value& field = object[View(key)];
  if (field.is_null()) field = std::move(value);
}

const json::value* Find(const json::value* value, std::initializer_list<std::string_view> path) {
  for (const std::string_view key : path) {
    if (value == nullptr || !value->is_object()) return nullptr;
    value = value->as_object().if_contains(View(key));
  }
  return value;
}
/// True unless the field is missing, null or false. A value of another type counts as true, to be safe.
bool IsOn(const json::value* value) {
  return value != nullptr && !value->is_null() && !(value->is_bool() && !value->as_bool());
}
/// True unless the field is missing, null, or an empty text, list or object.
bool IsGiven(const json::value* value) {
  if (value == nullptr || value->is_null()) return false;
  if (value->is_string()) return !value->as_string().empty();
  if (value->is_array()) return !value->as_array().empty();
  return !value->is_object() || !value->as_object().empty();
}
bool IsText(const json::value* value, std::string_view text) {
  return value != nullptr && value->is_string() && value->as_string() == View(text);
}

/// The rules for the security contexts of a pod and of a container.
std::string PrivilegeOfContext(const json::value* context, const std::string& where) {
  if (IsOn(Find(context, {"windowsOptions", "hostProcess"}))) return where + ".windowsOptions.hostProcess";
  for (const std::string_view profile : {"seccompProfile", "appArmorProfile"}) {
    if (IsText(Find(context, {profile, "type"}), "Unconfined")) return where + "." + std::string(profile);
  }
  for (const std::string_view switched : {"privileged", "allowPrivilegeEscalation"}) {
    if (IsOn(Find(context, {switched}))) return where + "." + std::string(switched);
  }
  if (IsGiven(Find(context, {"capabilities", "add"}))) return where + ".capabilities.add";
  if (IsGiven(Find(context, {"sysctls"}))) return where + ".sysctls";
  for (const std::string_view field : {"type", "user", "role"}) {
    if (IsGiven(Find(context, {"seLinuxOptions", field}))) return where + ".seLinuxOptions." + std::string(field);
  }
  if (IsText(Find(context, {"procMount"}), "Unmasked")) return where + ".procMount";
  return "";
}

std::string PrivilegeOfContainer(const json::value& container, const std::string& where) {
  if (std::string found = PrivilegeOfContext(Find(&container, {"securityContext"}), where + ".securityContext");
      !found.empty())
    return found;
  // A probe with a host field would make the kubelet send requests to other machines.
  for (const std::string_view probe : {"livenessProbe", "readinessProbe", "startupProbe", "postStart", "preStop"}) {
    const bool is_hook = probe.starts_with('p');
    const json::value* handler = is_hook ? Find(&container, {"lifecycle", probe}) : Find(&container, {probe});
    for (const std::string_view action : {"httpGet", "tcpSocket"}) {
      if (IsGiven(Find(handler, {action, "host"})))
        return where + (is_hook ? ".lifecycle." : ".") + std::string(probe) + "." + std::string(action) + ".host";
    }
  }
  const json::value* ports = Find(&container, {"ports"});
  if (ports == nullptr || !ports->is_array()) return "";
  for (const json::value& port : ports->as_array()) {
    if (IsOn(Find(&port, {"hostPort"}))) return where + ".ports.hostPort";
  }
  return "";
}

std::string PrivilegeOfPod(const json::value& pod) {
  const json::value* annotations = Find(&pod, {"metadata", "annotations"});
  if (annotations != nullptr && annotations->is_object()) {
    for (const auto& [key, unused] : annotations->as_object()) {
      const std::string name(key.data(), key.size());
      for (const std::string_view prefix : kProfileAnnotations) {
        if (name.starts_with(prefix)) return "metadata.annotations." + name;
      }
    }
  }
  const json::value* spec = Find(&pod, {"spec"});
  for (const std::string_view name : {"hostNetwork", "hostPID", "hostIPC"}) {
    if (IsOn(Find(spec, {name}))) return "spec." + std::string(name);
  }
  if (std::string found = PrivilegeOfContext(Find(spec, {"securityContext"}), "spec.securityContext"); !found.empty())
    return found;
  const json::value* volumes = Find(spec, {"volumes"});
  if (volumes != nullptr && volumes->is_array()) {
    for (const json::value& volume : volumes->as_array()) {
      if (IsOn(Find(&volume, {"hostPath"}))) return "spec.volumes.hostPath";
    }
  }
  for (const std::string_view list : kContainerLists) {
    const json::value* containers = Find(spec, {list});
    if (containers == nullptr || !containers->is_array()) continue;
    for (const json::value& container : containers->as_array()) {
      if (std::string found = PrivilegeOfContainer(container, "spec." + std::string(list)); !found.empty())
        return found;
    }
  }
  return "";
}

Result<json::value> Parse(const std::string& text) {
  json::error_code error;
  json::value value = json::parse(text, error);
  if (error || !value.is_object()) return InvalidArgument("the template is no object");
  return value;
}

/// "key=value:effect", "key:effect", "key=value" or "key", as in kubectl taint.
json::object TolerationOf(std::string_view text) {
  json::object toleration;
  if (const auto colon = text.rfind(':'); colon != std::string_view::npos) {
    toleration["effect"] = View(text.substr(colon + 1));
    text = text.substr(0, colon);
  }
  const auto equals = text.find('=');
  toleration["key"] = View(text.substr(0, equals));
  toleration["operator"] = equals == std::string_view::npos ? "Exists" : "Equal";
  if (equals != std::string_view::npos) toleration["value"] = View(text.substr(equals + 1));
  return toleration;
}

Status CheckToleration(std::string_view text) {
  const auto colon = text.rfind(':');
  const std::string_view effect = colon == std::string_view::npos ? std::string_view() : text.substr(colon + 1);
  const bool is_known = colon == std::string_view::npos || effect == "NoSchedule" || effect == "PreferNoSchedule" ||
                        effect == "NoExecute";
  if (is_known && !text.empty() && text.front() != ':' && text.front() != '=') return {};
  return InvalidArgument("option --toleration=" + std::string(text) +
                         ": expected KEY[=VALUE][:EFFECT] with the effect NoSchedule, PreferNoSchedule or NoExecute, "
                         "such as --toleration=nvidia.com/gpu:NoSchedule");
}

Status ReadOptions(const std::vector<std::string>& words, bool is_shape, KubernetesOptions& options) {
  for (const std::string& word : words) {
    const std::size_t equals = std::min(word.find('='), word.size());
    const std::string name = word.substr(0, equals), value = word.substr(std::min(equals + 1, word.size()));
    if (name == "--allow-privileged-template" && equals == word.size()) {
      options.allows_privileges = true;
      continue;
    }
    const std::map<std::string_view, std::string*> texts = {{"--namespace", &options.name_space},
                                                            {"--image", &options.image},
                                                            {"--service-account", &options.service_account},
                                                            {"--template", &options.template_file},
                                                            {"--divvy-path", &options.divvy_path},
                                                            {"--divvy-emulate", &options.emulate}};
    const auto text = texts.find(name);
    const bool is_known = text != texts.end() || name == "--node-selector" || name == "--toleration";
    if (!is_known)
      return InvalidArgument("unknown option " + name +
                             ": expected --namespace, --image, --node-selector, --toleration, --service-account, "
                             "--template, --allow-privileged-template, --divvy-path or --divvy-emulate");
    if (value.empty()) return InvalidArgument("option " + name + " needs a value; write it like " + name + "=VALUE");
    if (name == "--namespace" && is_shape)
      return InvalidArgument("option --namespace belongs to the provider: all of its shapes have one namespace");
    if (text != texts.end()) {
      *text->second = value;
    } else if (name == "--toleration") {
      DIVVY_CHECK(CheckToleration(value));
      options.tolerations.push_back(value);
    } else {
      const std::size_t at = value.find('=');
      if (at == 0 || at == std::string::npos)
        return InvalidArgument("option " + word + ": expected --node-selector=LABEL=VALUE");
      options.node_selector[value.substr(0, at)] = value.substr(at + 1);
    }
  }
  return {};
}

void SetMetadata(json::object& pod, const wire::ProviderOrder& order) {
  json::object& metadata = ObjectIn(pod, "metadata");
  json::object kept;
  for (const std::string_view key : {"labels", "annotations"}) kept[View(key)] = std::move(ObjectIn(metadata, key));
  metadata = std::move(kept);
  metadata["name"] = PodNameOf(order.token);
  json::object& labels = ObjectIn(metadata, "labels");
  SetDefault(labels, "app.kubernetes.io/name", "divvy-agent");
  labels[View(kClusterLabel)] = order.cluster;
  labels[View(kTokenLabel)] = order.token;
  // Names of nodes may be longer than labels.
  json::object& annotations = ObjectIn(metadata, "annotations");
  annotations["divvy.dev/node"] = order.name;
  annotations["divvy.dev/provider"] = order.provider;
}

void AddVolume(json::object& spec, json::object& container, std::string_view name, std::string_view path,
               json::object source) {
  json::object& volume = Named(ArrayIn(spec, "volumes"), name);
  volume = std::move(source);
  volume["name"] = View(name);
  json::object& mount = Named(ArrayIn(container, "volumeMounts"), name);
  mount = json::object{{"name", View(name)}, {"mountPath", View(path)}};
}

bool Mounts(const json::object& container, std::string_view path) {
  const json::value* mounts = container.if_contains("volumeMounts");
  return mounts != nullptr && mounts->is_array() && std::ranges::any_of(mounts->as_array(), [path](const auto& mount) {
           return IsText(Find(&mount, {"mountPath"}), path);
         });
}

void SetContainer(json::object& spec, const wire::ProviderOrder& order, const KubernetesOptions& options) {
  json::object& container = Named(ArrayIn(spec, "containers"), kContainer);
  if (!options.image.empty()) container["image"] = options.image;
  if (!options.divvy_path.empty()) container["command"] = json::array{json::string(options.divvy_path)};
  json::array arguments = {"agent",  "--on-demand",           "--join-file", std::string(kJoinFolder) + "/join",
                           "--name", json::string(order.name)};
  if (!options.emulate.empty()) {
    arguments.emplace_back("--emulate");
    arguments.emplace_back(options.emulate);
  }
  container["args"] = std::move(arguments);
  Named(ArrayIn(container, "env"), "DIVVY_HOME")["value"] = View(kHome);
  const wire::ProviderOrderShape& shape = *order.shape;
  json::object& limits = ObjectIn(ObjectIn(container, "resources"), "limits");
  limits["cpu"] = std::to_string(shape.cpus);
  limits["memory"] = std::to_string(shape.memory_bytes);
  if (shape.gpus > 0 && options.emulate.empty()) limits["nvidia.com/gpu"] = std::to_string(shape.gpus);
  // Without requests, the API server takes the limits.
  json::object& context = ObjectIn(container, "securityContext");
  const json::value copy = context;
  // The API server refuses privileged containers, and some with added capabilities, without escalation.
  if (!IsOn(Find(&copy, {"privileged"})) && !IsGiven(Find(&copy, {"capabilities", "add"})))
    SetDefault(context, "allowPrivilegeEscalation", false);
  AddVolume(spec, container, "divvy-join", kJoinFolder,
            {{"secret", {{"secretName", PodNameOf(order.token)}, {"defaultMode", 0440}}}});
  AddVolume(spec, container, "divvy-home", kHome, {{"emptyDir", json::object()}});
  // The container's own /dev/shm has 64 MiB, too little for jobs on several GPUs.
  if (!Mounts(container, "/dev/shm"))
    AddVolume(spec, container, "divvy-shm", "/dev/shm", {{"emptyDir", {{"medium", "Memory"}}}});
}

}  // namespace

Result<KubernetesOptions> ReadKubernetesOptions(const std::vector<std::string>& of_provider,
                                                const std::vector<std::string>& of_shape) {
  KubernetesOptions options;
  DIVVY_CHECK(ReadOptions(of_provider, false, options));
  DIVVY_CHECK(ReadOptions(of_shape, true, options));
  return options;
}

std::string PodNameOf(const std::string& token) { return "divvy-" + token; }

Result<std::string> PodText(const wire::ProviderOrder& order, const KubernetesOptions& options,
                            const std::string& pod_template) {
  DIVVY_TRY(json::value value, Parse(pod_template));
  json::object& pod = value.as_object();
  for (const auto& [key, unused] : pod) {
    const std::string name(key.data(), key.size());
    if (name != "apiVersion" && name != "kind" && name != "metadata" && name != "spec")
      return InvalidArgument("the template has the key " + name + ": expected a pod, with metadata and spec");
  }
  if (pod.contains("kind") && !IsText(pod.if_contains("kind"), "Pod"))
    return InvalidArgument("the template must be of kind Pod");
  if (!options.allows_privileges) {
    if (const std::string privilege = PrivilegeOfPod(value); !privilege.empty())
      return PermissionDenied("the template asks for privileges: " + privilege +
                              "; remove it, or allow it with --allow-privileged-template");
  }
  pod["apiVersion"] = "v1";
  pod["kind"] = "Pod";
  SetMetadata(pod, order);
  json::object& spec = ObjectIn(pod, "spec");
  // A node that has ended is lost: its jobs run again elsewhere, so it must not come back.
  spec["restartPolicy"] = "Never";
  // Jobs are programs of users, who must not get rights in the cluster.
  SetDefault(spec, "automountServiceAccountToken", false);
  SetDefault(spec, "enableServiceLinks", false);
  SetDefault(spec, "terminationGracePeriodSeconds", kGraceSeconds);
  if (order.shape->max_lifetime_s > 0)
    spec["activeDeadlineSeconds"] =
        static_cast<std::int64_t>(std::clamp(order.shape->max_lifetime_s, 1.0, kLongestLife));
  if (!options.service_account.empty()) spec["serviceAccountName"] = options.service_account;
  for (const auto& [label, wanted] : options.node_selector) ObjectIn(spec, "nodeSelector")[label] = wanted;
  for (const std::string& toleration : options.tolerations)
    ArrayIn(spec, "tolerations").push_back(TolerationOf(toleration));
  SetContainer(spec, order, options);
  const json::object& container = Named(ArrayIn(spec, "containers"), kContainer);
  if (!container.contains("image"))
    return InvalidArgument("no image: add \"--image=IMAGE\" to the options, an image that contains divvy");
  return json::serialize(value);
}

std::string SecretText(const wire::ProviderOrder& order, const std::string& pod_uid) {
  const std::string name = PodNameOf(order.token);
  const json::object owner = {{"apiVersion", "v1"}, {"kind", "Pod"}, {"name", name}, {"uid", pod_uid}};
  const json::object labels = {{View(kClusterLabel), order.cluster}, {View(kTokenLabel), order.token}};
  const json::object metadata = {{"name", name}, {"labels", labels}, {"ownerReferences", json::array{owner}}};
  return json::serialize(json::object{{"apiVersion", "v1"},
                                      {"kind", "Secret"},
                                      {"metadata", metadata},
                                      {"type", "Opaque"},
                                      {"stringData", {{"join", order.join}}}});
}

}  // namespace divvy::cli
