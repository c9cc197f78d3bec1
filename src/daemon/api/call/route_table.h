// The paths of the API and their handlers.
#pragma once

#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/api/call/api_call.h"
#include "daemon/auth/remote_callers.h"

namespace divvy {

/// The effect of a POST request. GET requests only read.
enum class RouteKind {
  kChange,    // Changes something that is stored.
  kUnstored,  // Changes only processes, so it works while the database cannot be reached.
  kQuestion,  // Changes nothing; a POST because its parameters are in the body.
  kOwnJob,    // A job's report about itself, which needs no audit entry.
};

class RouteTable {
 public:
  struct Route {
    std::string_view method;
    std::string_view path;  // "*" stands for one segment.
    std::function<void(ApiCall& call)> handler;
    RouteKind kind = RouteKind::kChange;
    Touches touches() const {
      return method == "GET" || kind == RouteKind::kQuestion ? Touches::kNothing : Touches::kSomething;
    }
  };
  /// A route whose handler is a member function. Its strings must be literals.
  template <typename Owner>
  struct OwnedRoute {
    std::string_view method;
    std::string_view path;
    void (Owner::*handler)(ApiCall& call);
    RouteKind kind = RouteKind::kChange;
  };
  struct Match {
    const Route* route = nullptr;  // Null if the table has no such path, or not with this method.
    std::string argument;          // The segment that "*" matched.
    bool knows_path = false;       // True if the table has the path, with whatever method.
  };

  /// `owner` must outlive the table. At most one route may match a method and a path.
  template <typename Owner>
  void Add(Owner* owner, std::initializer_list<OwnedRoute<Owner>> routes) {
    for (const auto& [method, path, handler, kind] : routes)
      routes_.push_back({method, path, std::bind_front(handler, owner), kind});
  }
  /// Cost: linear in the number of routes.
  Match Find(std::string_view method, std::string_view path) const;

 private:
  std::vector<Route> routes_;
};

}  // namespace divvy
