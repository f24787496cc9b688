#include "serving/router.h"

#include <algorithm>
#include <charconv>
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
  std::string out;
  for (const char c : path) {
    if (c != '/' || !out.ends_with('/')) out += c;
  }
  if (out.size() > 1 && out.ends_with('/')) out.pop_back();
  if (find(out, "") != nullptr) return out;
  constexpr std::string_view kVersion = "/v1";
  std::string with = std::string(kVersion) + out;
  if (find(with, "") != nullptr) return with;
  std::string without = out.starts_with("/v1/") ? out.substr(kVersion.size()) : out;
  return find(without, "") != nullptr ? without : out;
}

std::string name_in_path(const Call& call) {
  const std::string& path = call.request.head.path;
  std::string out;
  for (size_t at = call.route.size(); at < path.size(); ++at) {
    unsigned code = 0;
    const char* const digits = path.data() + at + 1;
    const bool escape = path[at] == '%' && at + 2 < path.size() &&
                        std::from_chars(digits, digits + 2, code, 16).ptr == digits + 2;
    out += escape ? static_cast<char>(code) : path[at];
    if (escape) at += 2;
  }
  return out;
}

}  // namespace chimere::serving
