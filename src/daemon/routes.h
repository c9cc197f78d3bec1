// The API: what each path does. docs/api.md and GET /v1/openapi.json say the same for readers.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "daemon/core.h"
#include "daemon/http_server.h"
#include "daemon/node.h"
#include "wire/messages.h"

namespace divvy {

/// What the daemon tells about itself.
struct About {
  std::int64_t pid = 0;
  Time since = kNoTime;
  std::string home;
  std::string socket;
  std::string user;
  bool is_machine_wide = false;
  std::string gpu_source;
  std::string isolation;
  std::vector<std::string> warnings;
};

/// Who may do what only administrators may: root, the daemon's own user, and those that divvy.toml names.
struct Admins {
  std::set<std::int64_t> uids;
  std::set<std::string> users;
};

class Routes {
 public:
  struct Ports {
    std::function<std::string(std::int64_t uid)> user_name;
    std::function<void()> shut_down;
    /// Start ticks, user and command of a live process, for ignore rules; nothing if there is none.
    std::function<std::optional<IgnoredProcess>(std::int64_t pid)> look_up_process;
  };

  Routes(Core& core, Node& node, About about, Admins admins, Ports ports);

  void Handle(const Peer& peer, HttpRequest&& request, Reply reply);
  static std::string OpenApiText();

 private:
  struct Call;
  using Handler = void (Routes::*)(Call& call);
  struct Route {
    std::string_view method;
    std::string_view path;  // "*" stands for one segment.
    Handler handler;
  };
  static const std::vector<Route>& Table();

  Caller CallerOf(const Peer& peer);

  void Status(Call& call);
  void Gpus(Call& call);
  void Restrict(Call& call);
  void Ignore(Call& call);
  void IgnoreRules(Call& call);
  void Submit(Call& call);
  void Select(Call& call);
  void List(Call& call);
  void Show(Call& call);
  void Why(Call& call);
  void Wait(Call& call);
  void Attach(Call& call);
  void Resize(Call& call);
  void Cancel(Call& call);
  void Hold(Call& call);
  void Release(Call& call);
  void Requeue(Call& call);
  void Pause(Call& call);
  void Resume(Call& call);
  void Signal(Call& call);
  void Update(Call& call);
  void GroupLimit(Call& call);
  void Events(Call& call);
  void OpenApiDocument(Call& call);
  void Shutdown(Call& call);

  using Action = std::function<Result<std::string>(JobId id, const wire::ActionRequest& request, const Caller& caller)>;
  void Act(Call& call, const Action& action);
  void AnswerJobs(Call& call, const wire::JobSelector& select);
  std::vector<JobRecord> LiveInOrder(const wire::JobSelector& select, const Caller& caller,
                                     std::map<JobId, std::uint64_t>& positions);
  void AnswerWhenFinal(Call& call, JobId id, std::function<void()> on_closed);

  Core& core_;
  Node& node_;
  About about_;
  Admins admins_;
  Ports ports_;
  std::map<std::int64_t, std::string> names_;  // uid -> name; few, and they do not change.
};

}  // namespace divvy
