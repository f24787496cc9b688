#include "serving/router.h"

#include <algorithm>
#include <utility>

namespace chimere::serving {

void Router::add(Route route) { routes_.push_back(std::move(route)); }

namespace {

bool is_at(const Route& route, std::string_view path) {
  const bool prefix = route.path.size() > 1 && route.path.ends_with('/');
  return route.path == path || (prefix && path.starts_with(route.path));
}

}  // namespace

const Route* Router::find(std::string_view path, std::string_view method) const {
  if (method == "HEAD") method = "GET";
  const Route* found = nullptr;
  // Longer paths are more specific: an exact one is the longest.
  const auto rank = [&](const Route& route) {
    return std::pair(route.path.size(), route.method == method);
  };
  for (const Route& route : routes_) {
    if (is_at(route, path) && (found == nullptr || rank(route) > rank(*found))) found = &route;
  }
  return found;
}

std::string Router::methods(std::string_view path) const {
  std::string out;
  const Route* const found = find(path, "");
  for (const Route& route : routes_) {
    if (found == nullptr || route.path != found->path) continue;
    out += out.empty() ? "" : ", ";
    out += route.method;
  }
  return out;
}

std::string Router::canonical(std::string_view path) const {
  std::string out(path);
  if (find(out, "") != nullptr) return out;
  out.clear();
  for (const char c : path) {
    if (c != '/' || !out.ends_with('/')) out += c;
  }
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  constexpr std::string_view kVersion = "/v1";
  const std::string with = std::string(kVersion) + out;
  const std::string without = out.starts_with("/v1/") ? out.substr(kVersion.size()) : out;
  for (const std::string& meant : {out, with, without}) {
    const Route* const route = find(meant, "");
    // Others have one name, which a proxy in front of the server can refuse.
    if (route != nullptr && route->scope == "inference") return meant;
  }
  return std::string(path);
}

std::string name_in_path(const Call& call) {
  const std::string& path = call.request.head.path;
  return path.size() > call.route.size() ? path.substr(call.route.size()) : "";
}

}  // namespace chimere::serving
