#include <chrono>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>

#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {
namespace {

using Json = nlohmann::ordered_json;

/// The text argument `name`. Errors: kInvalidArgument.
Result<std::string> text_argument(const std::string& arguments, const char* name) {
  const Json parsed = Json::parse(arguments, nullptr, false);
  if (!parsed.is_object() || !parsed.contains(name) || !parsed[name].is_string()) {
    return invalid_argument(std::string("The arguments must be an object with the text '") + name +
                            "'.");
  }
  return parsed[name].get<std::string>();
}

class Calculate final : public Tool {
 public:
  const text::Tool& definition() const override { return definition_; }
  Result<std::string> call(const std::string& arguments, const ToolContext& /*context*/) override {
    CHIMERE_TRY(const std::string expression, text_argument(arguments, "expression"));
    CHIMERE_TRY(const double value, evaluate(expression));
    char text[40];
    (void)std::snprintf(text, sizeof text, "%.15g", value);
    return std::string(text);
  }

 private:
  const text::Tool definition_ = {
      "calculate", "Computes an arithmetic expression, such as 17*(2+3)^2 or sqrt(2).",
      R"({"type":"object","properties":{"expression":{"type":"string"}},"required":["expression"]})",
      true};
};

class Time final : public Tool {
 public:
  const text::Tool& definition() const override { return definition_; }
  Result<std::string> call(const std::string& /*arguments*/,
                           const ToolContext& /*context*/) override {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm utc{};
    if (gmtime_r(&now, &utc) == nullptr) return io_error("The time is not known.");
    char text[64];
    (void)std::strftime(text, sizeof text, "%A %Y-%m-%d %H:%M:%S UTC", &utc);
    return std::string(text);
  }

 private:
  const text::Tool definition_ = {"time", "The date and the time of day in UTC.",
                                  R"({"type":"object","properties":{}})", true};
};

class SearchPassages final : public Tool {
 public:
  const text::Tool& definition() const override { return definition_; }
  Result<std::string> call(const std::string& arguments, const ToolContext& context) override {
    CHIMERE_TRY(const std::string query, text_argument(arguments, "query"));
    if (context.passages == nullptr || context.collections.empty()) {
      return not_found("This request has no collections to search.");
    }
    std::string out;
    int64_t number = 0;
    for (const std::string& collection : context.collections) {
      CHIMERE_TRY(const auto found, context.passages->search(context.owner, collection, query, 4));
      for (const Passage& passage : found) {
        out += "[" + std::to_string(++number) + "] " + passage.name + ", " + passage.place + "\n" +
               passage.text + "\n\n";
      }
    }
    return out.empty() ? std::string("Nothing was found.") : out;
  }

 private:
  const text::Tool definition_ = {
      "search", "Searches the collections of documents for passages.",
      R"({"type":"object","properties":{"query":{"type":"string"}},"required":["query"]})", true};
};

/// The passages of one document of the collections.
class ReadDocument final : public Tool {
 public:
  const text::Tool& definition() const override { return definition_; }
  Result<std::string> call(const std::string& arguments, const ToolContext& context) override {
    CHIMERE_TRY(const std::string name, text_argument(arguments, "name"));
    if (context.passages == nullptr) return not_found("This request has no collections to read.");
    std::string out;
    for (const std::string& collection : context.collections) {
      CHIMERE_TRY(const auto found, context.passages->search(context.owner, collection, name, 16));
      for (const Passage& passage : found) {
        if (passage.name == name) out += passage.place + "\n" + passage.text + "\n\n";
      }
    }
    if (out.empty()) return not_found("The collections have no document '" + name + "'.");
    return out;
  }

 private:
  const text::Tool definition_ = {
      "read", "Reads passages of a document of the collections, by the name that search gave.",
      R"({"type":"object","properties":{"name":{"type":"string"}},"required":["name"]})", true};
};

}  // namespace

std::vector<std::shared_ptr<Tool>> built_in_tools() {
  return {std::make_shared<Calculate>(), std::make_shared<Time>(),
          std::make_shared<SearchPassages>(), std::make_shared<ReadDocument>(), run_code_tool()};
}

}  // namespace chimere::orchestrator
