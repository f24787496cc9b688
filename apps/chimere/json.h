// Prints JSON documents on standard output.
#ifndef CHIMERE_APPS_CHIMERE_JSON_H_
#define CHIMERE_APPS_CHIMERE_JSON_H_

#include <iostream>
#include <nlohmann/json.hpp>

namespace chimere::app {

using Json = nlohmann::ordered_json;

/// Invalid UTF-8 becomes U+FFFD: a generation may end inside a character.
inline constexpr auto kLenient = Json::error_handler_t::replace;

inline void print_json(const Json& document) {
  std::cout << document.dump(-1, ' ', false, kLenient) << '\n';
}

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_JSON_H_
