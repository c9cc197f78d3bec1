// divvy provider kubernetes: Kubernetes as a provider of nodes. A node is a pod that runs divvy's agent until divvy
// returns the node. Its name is made from the token of the order, so a call that is repeated finds it. Two labels are
// its tag: the cluster and the token. The join line is in a secret that belongs to the pod and is removed with it.
//
// Options of the provider and of its shapes: see KubernetesOptions (kubernetes_pod.h) and docs/providers.md.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/base64.h"
#include "base/text.h"
#include "cli/cluster/kubernetes_api.h"
#include "cli/cluster/kubernetes_pod.h"
#include "cli/cluster/provider_calls.h"
#include "dialect/config/yaml_json.h"
#include "wire/json/json.h"
#include "wire/messages/codec.h"

namespace divvy::cli {
namespace {

constexpr int kPodsInOneAnswer = 500;
constexpr int kMostPages = 1000;
/// Limits for the answers of a server: the pods in one list, the bytes of a name, and the bytes of the token for the
/// next page.
constexpr std::size_t kMostPods = 10'000;
constexpr std::size_t kLongestName = 256;
constexpr std::size_t kLongestContinue = std::size_t{64} << 10;
/// The list call deletes pods that have ended, at most this many per call.
constexpr int kMostDeleted = 20;
/// A pod that exists for so long after its end is stuck.
constexpr std::time_t kStuckAfter = 300;
/// How often a request is repeated if pods appear or vanish at the same time, or if a page of a list has expired.
constexpr int kMostTries = 5;
/// The time limit of a call if the daemon sets none (DIVVY_TIMEOUT_S).
constexpr Duration kUsualTimeout = std::chrono::minutes(2);

/// A pod as the API server describes it (kubernetes.io, "Pod v1 core").
struct Pod {
  std::string name;
  std::string uid;
  std::string cluster;
  std::string token;
  bool has_ended = false;     // Its agent will not start again.
  bool is_deleting = false;   // It exists until they have ended.
  bool is_scheduled = false;  // It has a node.
  bool is_stuck = false;      // It should have been gone for a while.
};

std::string TextOf(JsonValue value) { return std::string(value.AsString().value_or("")); }

/// Times are RFC 3339 in UTC: "2026-11-02T09:12:00Z". nullopt for others.
std::optional<std::time_t> TimeIn(const std::string& text) {
  std::tm parts{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts);
  if (end == nullptr || *end != '\0') return std::nullopt;
  return ::timegm(&parts);
}

Pod PodOf(JsonValue json) {
  Pod pod;
  const JsonValue metadata = json["metadata"];
  pod.name = TextOf(metadata["name"]);
  pod.uid = TextOf(metadata["uid"]);
  pod.cluster = TextOf(metadata["labels"][kClusterLabel]);
  pod.token = TextOf(metadata["labels"][kTokenLabel]);
  pod.is_deleting = metadata["deletionTimestamp"].is_string();
  const std::string phase = TextOf(json["status"]["phase"]);
  pod.has_ended = phase == "Failed" || phase == "Succeeded";
  // The template may have other containers, which keep the pod in the phase Running.
  for (const JsonValue container : json["status"]["containerStatuses"]) {
    if (TextOf(container["name"]) == kContainer && container["state"]["terminated"].is_object()) pod.has_ended = true;
  }
  if (const auto deleted = TimeIn(TextOf(metadata["deletionTimestamp"]))) {
    const std::int64_t grace = metadata["deletionGracePeriodSeconds"].AsInt().value_or(0);
    pod.is_stuck = *deleted + std::clamp<std::int64_t>(grace, 0, 1'000'000'000) + kStuckAfter < std::time(nullptr);
  }
  pod.is_scheduled = json["spec"]["nodeName"].is_string() && !TextOf(json["spec"]["nodeName"]).empty();
  return pod;
}

/// The reason of an error: "AlreadyExists", "Conflict", "Expired" (apimachinery, StatusReason).
std::string ReasonOf(const HttpResponse& answer) {
  const auto document = JsonDocument::ParseInPlace(answer.body);
  return document ? TextOf(document->root()["reason"]) : std::string();
}

class Provider {
 public:
  Provider(KubernetesApi api, const wire::ProviderOrder& order, KubernetesOptions options)
      : api_(std::move(api)), order_(order), options_(std::move(options)) {
    if (!order.join.empty()) {
      api_.Hide(order.join);
      api_.Hide(Base64(order.join));  // As secrets show it.
    }
    folder_ = "/api/v1/namespaces/" +
              PercentEncode(options_.name_space.empty() ? api_.name_space() : options_.name_space) + "/";
  }

  Result<std::string> Create() {
    DIVVY_TRY(const std::string text, PodFor());
    for (int tries = 0; tries < kMostTries; ++tries) {
      if (tries > 0) api_.Pause(tries - 1);
      DIVVY_TRY(const HttpResponse answer, api_.Call("POST", folder_ + "pods?fieldValidation=Strict", text));
      std::optional<Pod> pod;
      if (answer.status == 409) {
        // It exists already, or a quota was changed at the same time (reason Conflict): then it is tried again.
        if (ReasonOf(answer) != "AlreadyExists") continue;
        DIVVY_TRY(pod, Find(PodNameOf(order_.token)));
        if (!pod) continue;  // It has gone since.
        if (pod->token != order_.token || pod->cluster != order_.cluster)
          return FailedPrecondition("pod " + pod->name + " exists and is no node of this cluster");
      } else if (answer.status >= 300) {
        return api_.ErrorOf("creating the pod", answer);
      } else {
        const auto document = JsonDocument::ParseInPlace(answer.body);
        if (!document) return CorruptData("creating the pod: the answer is not JSON");
        pod = PodOf(document->root());
      }
      if (pod->uid.empty()) return CorruptData("creating the pod: the answer has no uid");
      if (!pod->is_deleting && !pod->has_ended) DIVVY_CHECK(CreateSecret(*pod));
      return pod->name;
    }
    return Unreachable("creating the pod: it came and went, or conflicted with other changes, " +
                       std::to_string(kMostTries) + " times");
  }

  Result<wire::ProviderList> List() {
    for (int tries = 0; tries < kMostTries; ++tries) {
      DIVVY_TRY(const auto pods, ListOnce());
      if (!pods) continue;  // Its pages have expired.
      wire::ProviderList list;
      int deleted = 0;
      for (const Pod& pod : *pods) {
        if (!pod.has_ended) {
          list.nodes.push_back({.cluster = pod.cluster,
                                .token = pod.token,
                                .instance = pod.name,
                                .state = pod.is_scheduled ? "" : "pending"});
        } else if (!pod.is_deleting && deleted++ < kMostDeleted) {
          // No agent runs in the pod. If the deletion fails, the next list call deletes it.
          static_cast<void>(Delete("pods/", pod.name, pod.uid, false));
        }
      }
      return list;
    }
    return Unreachable("listing the pods: the list expired " + std::to_string(kMostTries) + " times while it was read");
  }

  Status Destroy() {
    const std::string name = order_.instance.empty() ? PodNameOf(order_.token) : order_.instance;
    for (int tries = 0; tries < kMostTries; ++tries) {
      if (tries > 0) api_.Pause(tries - 1);
      DIVVY_TRY(const std::optional<Pod> pod, Find(name));
      const bool is_ours =
          pod && pod->cluster == order_.cluster && (order_.token.empty() || pod->token == order_.token);
      if (is_ours && pod->is_stuck)
        return FailedPrecondition("pod " + name +
                                  " was deleted, but still exists long after its grace period: its node is lost or a "
                                  "finalizer keeps it. kubectl describe pod " +
                                  name + " says more");
      if (!is_ours || pod->is_deleting) return {};
      DIVVY_TRY(const HttpResponse answer, Delete("pods/", pod->name, pod->uid));
      if (answer.status < 300 || answer.status == 404) return {};
      // 409: another pod has the name by now.
      if (answer.status != 409) return api_.ErrorOf("deleting the pod", answer);
    }
    return Unreachable("deleting the pod: it was replaced " + std::to_string(kMostTries) + " times");
  }

 private:
  Result<std::string> PodFor() const {
    std::string pod_template = "{}";
    if (!options_.template_file.empty()) {
      DIVVY_TRY(const std::string text, ReadSmallFile(options_.template_file));
      auto converted = dialect::YamlToJson(text);
      if (!converted) return InvalidArgument(options_.template_file + ": " + converted.error().message);
      pod_template = *std::move(converted);
    }
    auto pod = PodText(order_, options_, pod_template);
    if (!pod && !options_.template_file.empty())
      return Error{pod.error().code, options_.template_file + ": " + pod.error().message};
    return pod;
  }

  /// The pod first, so that the secret can belong to it: Kubernetes then removes it with the pod, whatever happens to
  /// this program. The pod waits until the secret of its volume exists.
  Status CreateSecret(const Pod& pod) {
    const std::string text = SecretText(order_, pod.uid);
    for (int tries = 0; tries < kMostTries; ++tries) {
      if (tries > 0) api_.Pause(tries - 1);
      DIVVY_TRY(const HttpResponse answer, api_.Call("POST", folder_ + "secrets", text));
      if (answer.status < 300) return {};
      if (answer.status != 409) return api_.ErrorOf("creating the secret of the pod", answer);
      // An earlier call has created it, for this pod or for one of the same name that has gone.
      DIVVY_TRY(const HttpResponse known, api_.Call("GET", folder_ + "secrets/" + pod.name));
      if (known.status == 404) continue;
      if (known.status >= 300) return api_.ErrorOf("reading the secret of the pod", known);
      const auto document = JsonDocument::ParseInPlace(known.body);
      if (!document) return CorruptData("reading the secret of the pod: the answer is not JSON");
      const JsonValue metadata = document->root()["metadata"];
      if (TextOf(metadata["ownerReferences"].At(0)["uid"]) == pod.uid) return {};
      if (TextOf(metadata["labels"][kTokenLabel]) != order_.token)
        return FailedPrecondition("secret " + pod.name + " exists and belongs to no node of divvy");
      DIVVY_TRY(const HttpResponse deleted, Delete("secrets/", pod.name, TextOf(metadata["uid"])));
      if (deleted.status >= 300 && deleted.status != 404 && deleted.status != 409)
        return api_.ErrorOf("deleting an earlier secret", deleted);
    }
    return Unreachable("creating the secret of the pod: one of the same name came back " + std::to_string(kMostTries) +
                       " times");
  }

  /// nullopt if there is none.
  Result<std::optional<Pod>> Find(const std::string& name) {
    DIVVY_TRY(const HttpResponse answer, api_.Call("GET", folder_ + "pods/" + PercentEncode(name)));
    if (answer.status == 404) return std::optional<Pod>();
    if (answer.status >= 300) return api_.ErrorOf("reading the pod", answer);
    const auto document = JsonDocument::ParseInPlace(answer.body);
    if (!document) return CorruptData("reading the pod: the answer is not JSON");
    return std::optional(PodOf(document->root()));
  }

  /// All pages of one list. nullopt if they have expired: the next page is answered with 410.
  Result<std::optional<std::vector<Pod>>> ListOnce() {
    std::vector<Pod> pods;
    std::string next;
    for (int page = 0; page < kMostPages; ++page) {
      std::string target = folder_ + "pods?limit=" + std::to_string(kPodsInOneAnswer) +
                           "&labelSelector=" + PercentEncode(std::string(kClusterLabel) + "=" + order_.cluster);
      if (!next.empty()) target += "&continue=" + PercentEncode(next);
      DIVVY_TRY(const HttpResponse answer, api_.Call("GET", target));
      if (answer.status == 410) return std::optional<std::vector<Pod>>();
      if (answer.status >= 300) return api_.ErrorOf("listing the pods", answer);
      const auto document = JsonDocument::ParseInPlace(answer.body);
      // A list that is incomplete would make nodes look lost.
      if (!document || !document->root()["items"].is_array())
        return CorruptData("listing the pods: the answer is no list");
      for (const JsonValue item : document->root()["items"]) {
        Pod pod = PodOf(item);
        if (std::max({pod.name.size(), pod.uid.size(), pod.cluster.size(), pod.token.size()}) > kLongestName)
          return CorruptData("listing the pods: a name has more than 256 bytes");
        if (pods.size() >= kMostPods) return CorruptData("listing the pods: there are more than 10000");
        if (pod.cluster == order_.cluster && !pod.token.empty()) pods.push_back(std::move(pod));
      }
      next = TextOf(document->root()["metadata"]["continue"]);
      if (next.empty()) return std::optional(std::move(pods));
      if (next.size() > kLongestContinue)
        return CorruptData("listing the pods: the token of the next page is too long");
    }
    return CorruptData("listing the pods: the list has no end");
  }

  /// Deletes the object only if it is still the one with this uid. The pod's own grace period applies.
  Result<HttpResponse> Delete(const std::string& kind, const std::string& name, const std::string& uid,
                              bool repeats = true) {
    std::string body;
    JsonWriter writer(body);
    writer.BeginObject();
    writer.Member("apiVersion", std::string("v1"));
    writer.Member("kind", std::string("DeleteOptions"));
    writer.Key("preconditions");
    writer.BeginObject();
    writer.Member("uid", uid);
    writer.EndObject();
    writer.EndObject();
    return api_.Call("DELETE", folder_ + kind + PercentEncode(name), body, repeats);
  }

  KubernetesApi api_;
  const wire::ProviderOrder& order_;
  KubernetesOptions options_;
  std::string folder_;
};

Result<Provider> ProviderFor(const wire::ProviderOrder& order) {
  DIVVY_TRY(KubernetesOptions options,
            ReadKubernetesOptions(order.options, order.shape ? order.shape->options : std::vector<std::string>()));
  Duration timeout = kUsualTimeout;
  if (const char* given = std::getenv("DIVVY_TIMEOUT_S")) {
    if (const auto seconds = ParseInteger(given); seconds && *seconds > 0) timeout = std::chrono::seconds(*seconds);
  }
  // A little less than the time limit, so that the error is reported before the daemon kills this program.
  DIVVY_TRY(KubernetesApi api, KubernetesApi::Open(timeout * 9 / 10));
  return Provider(std::move(api), order, std::move(options));
}

}  // namespace

Result<std::string> CallKubernetes(const std::string& verb, const wire::ProviderOrder& order) {
  ::signal(SIGPIPE, SIG_IGN);  // A server that closes the connection is an error like others.
  if (verb == "create" && (!order.shape || order.token.empty() || order.name.empty() || order.join.empty()))
    return InvalidArgument("the order has no token, name, join line or shape");
  DIVVY_TRY(Provider provider, ProviderFor(order));
  if (verb == "create") {
    DIVVY_TRY(const std::string instance, provider.Create());
    return wire::Encode(wire::ProviderCreated{instance});
  }
  if (verb == "list") {
    DIVVY_TRY(const wire::ProviderList list, provider.List());
    return wire::Encode(list);
  }
  if (order.token.empty() && order.instance.empty()) return InvalidArgument("the order has no token and no instance");
  DIVVY_CHECK(provider.Destroy());
  return std::string("{}");
}

}  // namespace divvy::cli
