#include "serving/router.h"

#include <algorithm>
#include <utility>

namespace chimere::serving {

void Router::add(Route route) { routes_.push_back(std::move(route)); }

const Route* Router::find(std::string_view path) const {
  const auto exact = std::ranges::find(routes_, path, &Route::path);
  if (exact != routes_.end()) return &*exact;
  const auto prefix = std::ranges::find_if(routes_, [&](const Route& route) {
    return route.path.size() > 1 && route.path.ends_with('/') && path.starts_with(route.path);
  });
  return prefix == routes_.end() ? nullptr : &*prefix;
}

std::string name_in_path(const Call& call) {
  const std::string& path = call.request.head.path;
  return path.size() > call.route.size() ? path.substr(call.route.size()) : "";
}

}  // namespace chimere::serving
