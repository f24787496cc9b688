#include "serving/endpoints/studio_endpoint.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/settings.h"
#include "serving/studio_files.h"

namespace chimere::serving {
namespace {

using protocol::ApiError;

/// Nothing is loaded from elsewhere, no text of a page becomes a script, and no other site frames
/// it.
constexpr const char* kStudioPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "font-src 'self'; connect-src 'self'; frame-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types dompurify";
/// Mermaid writes style elements. It runs in a frame without an origin of its own, which can load
/// nothing but its script and say nothing but messages to the page.
constexpr const char* kDiagramPolicy =
    "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'self'; sandbox allow-scripts";

/// As the API takes it: a default of a table is text.
nlohmann::json option_value(const SettingInfo& option, std::string_view text) {
  if (option.kind == SettingInfo::Kind::kText) return std::string(text);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

nlohmann::json option_json(const SettingInfo& option) {
  using Kind = SettingInfo::Kind;
  nlohmann::json out = {{"field", option.field},
                        {"flag", "--" + std::string(option.name)},
                        {"type", option.separator != 0 || option.json_list ? "list"
                                 : option.kind == Kind::kInteger           ? "integer"
                                 : option.kind == Kind::kReal              ? "number"
                                                                           : "text"},
                        {"help", option.help}};
  if (option.separator != 0) {
    nlohmann::json items = nlohmann::json::array();
    for (std::string_view rest = option.default_value; !rest.empty();) {
      const std::string_view item = rest.substr(0, rest.find(option.separator));
      items.push_back(item);
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
    }
    out["default"] = std::move(items);
  } else if (option.json_list) {
    out["default"] = nlohmann::json::parse(option.default_value, nullptr, false);
  } else {
    out["default"] = option_value(option, option.default_value);
  }
  if (option.kind != Kind::kText) {
    out["min"] = option.min;
    out["max"] = option.max;
  }
  for (const std::string_view choice : option.choices) out["choices"].push_back(choice);
  return out;
}

}  // namespace

void StudioEndpoint::add_routes(Router& router) {
  router.add({"/", "GET", "", [this](const CallPtr& call) { file(call, "index.html"); }});
  // The name that browsers ask for whatever they open, such as /v1/models.
  router.add(
      {"/favicon.ico", "GET", "", [this](const CallPtr& call) { file(call, "favicon.svg"); }});
  router.add({"/studio/", "GET", "", [this](const CallPtr& call) {
                file(call, std::string_view(call->request.head.path).substr(8));
              }});
  router.add({"/v1/options", "GET", "inference", [this](const CallPtr& call) { options(call); }});
}

void StudioEndpoint::file(const CallPtr& call, std::string_view name) const {
  const StudioFile* const file = studio_file(name);
  if (file == nullptr) {
    return respond(call, ApiError{"not_found", "Studio has no file of this name."});
  }
  const std::string tag = "\"" + std::string(file->tag) + "\"";
  // Browsers keep the file and ask whether it changed: a new build of the server is seen at once.
  HttpResponse response{
      200, "", std::string(file->type), {{"Cache-Control", "no-cache"}, {"ETag", tag}}};
  response.headers.emplace_back("Content-Security-Policy",
                                name == "diagram.html" ? kDiagramPolicy : kStudioPolicy);
  response.headers.emplace_back("Referrer-Policy", "no-referrer");
  response.headers.emplace_back("Cross-Origin-Resource-Policy", "same-origin");
  if (call->request.head.header("if-none-match") == tag) {
    response.status = 304;
  } else {
    response.body = file->content;
    // There is no other form of it; a client that does not say what it accepts accepts all.
    if (file->gzip) response.headers.emplace_back("Content-Encoding", "gzip");
  }
  respond(call, std::move(response));
}

void StudioEndpoint::options(const CallPtr& call) const {
  nlohmann::json data = nlohmann::json::array();
  for (const SettingInfo* option : settings::in_group(SettingGroup::kSampling)) {
    if (!option->field.empty()) data.push_back(option_json(*option));
  }
  respond(call, HttpResponse{200, nlohmann::json{{"object", "list"}, {"data", data}}.dump()});
}

}  // namespace chimere::serving
