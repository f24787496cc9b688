#include "retrieval/robots.h"

#include <algorithm>
#include <cctype>

#include "retrieval/line_reader.h"

namespace chimere::retrieval {
namespace {

std::string lower_field(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

/// Whether a path begins with what a pattern says. Linear in both for each star.
bool matches(std::string_view pattern, std::string_view path) {
  const bool whole = pattern.ends_with('$');
  if (whole) pattern.remove_suffix(1);
  size_t p = 0;
  size_t at = 0;
  size_t star = std::string_view::npos;
  size_t resume = 0;
  while (at < path.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      resume = at;
    } else if (p < pattern.size() && pattern[p] == path[at]) {
      ++p;
      ++at;
    } else if (p == pattern.size() && !whole) {
      return true;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      at = ++resume;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

RobotsRules RobotsRules::parse(std::string_view text, std::string_view agent) {
  constexpr size_t kMostRead = size_t{512} << 10;
  constexpr size_t kMostRules = 10'000;
  constexpr size_t kMostPattern = 1000;
  RobotsRules own;
  RobotsRules others;
  bool has_own = false;
  bool for_own = false;
  bool for_others = false;
  bool in_agents = false;  // a group begins with one or several lines of user-agent
  const std::string name = lower_field(agent);
  LineReader lines(text.substr(0, kMostRead));
  while (lines.next()) {
    std::string_view line = lines.line();
    line = trimmed(line.substr(0, line.find('#')));
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string field = lower_field(trimmed(line.substr(0, colon)));
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (field == "user-agent") {
      if (!in_agents) for_own = for_others = false;
      in_agents = true;
      for_others = for_others || value == "*";
      for_own = for_own || lower_field(value) == name;
      has_own = has_own || for_own;
    } else if (field == "allow" || field == "disallow") {
      in_agents = false;
      if (value.empty() || value.size() > kMostPattern) continue;
      const Rule rule = {std::string(value), field == "allow"};
      if (for_own && own.rules_.size() < kMostRules) own.rules_.push_back(rule);
      if (for_others && others.rules_.size() < kMostRules) others.rules_.push_back(rule);
    }
  }
  return has_own ? own : others;
}

bool RobotsRules::allows(std::string_view path) const {
  const Rule* best = nullptr;
  for (const Rule& rule : rules_) {
    if (!matches(rule.pattern, path)) continue;
    const bool longer = best == nullptr || rule.pattern.size() > best->pattern.size();
    const bool equal = best != nullptr && rule.pattern.size() == best->pattern.size();
    if (longer || (equal && rule.allow)) best = &rule;
  }
  return best == nullptr || best->allow;
}

}  // namespace chimere::retrieval
