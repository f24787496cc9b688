#include "protocol/volatile_lines.h"

#include <algorithm>
#include <array>
#include <cctype>

namespace chimere::protocol {
namespace {

bool digit(char c) { return c >= '0' && c <= '9'; }

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return std::tolower(c); });
  return out;
}

std::string_view trimmed(std::string_view line) {
  const size_t begin = line.find_first_not_of(" \t\r-*");
  return begin == std::string_view::npos ? "" : line.substr(begin);
}

/// Claude Code's "x-anthropic-billing-header: cc_version=...; cch=...;".
bool is_billing(std::string_view line) { return line.starts_with("x-anthropic-billing-header:"); }

/// "Token usage: 1200/200000; 198800 remaining", "Tokens left: 5,000".
bool is_token_count(std::string_view line) {
  if (line.size() > 200 || !std::ranges::any_of(line, digit)) return false;
  const std::string text = lower(trimmed(line));
  constexpr std::string_view kBeginnings[] = {
      "token usage:",   "tokens used:",        "tokens left:",      "tokens remaining:",
      "context usage:", "context left:",       "remaining tokens:", "used tokens:",
      "token count:",   "context window used:"};
  return std::ranges::any_of(kBeginnings, [&](auto begin) { return text.starts_with(begin); });
}

/// "Current time: 2026-01-31 12:34", "It is now ...": a time of day after a word that says so.
/// Dates alone stay: they change once a day.
bool is_clock(std::string_view line) {
  if (line.size() > 200) return false;
  bool time = false;
  for (size_t i = 0; i + 4 < line.size() && !time; ++i) {
    time = digit(line[i]) && digit(line[i + 1]) && line[i + 2] == ':' && digit(line[i + 3]) &&
           digit(line[i + 4]);
  }
  if (!time) return false;
  const std::string text = lower(trimmed(line));
  constexpr std::string_view kBeginnings[] = {
      "current time",     "current date", "the current time",
      "the current date", "time:",        "date:",
      "datetime:",        "timestamp:",   "now:",
      "it is now ",       "today's date", "today is ",
      "current datetime", "local time",   "system time"};
  return std::ranges::any_of(kBeginnings, [&](auto begin) { return text.starts_with(begin); });
}

constexpr auto kRules = std::to_array<VolatileRule>({
    {"billing", "`x-anthropic-billing-header: ...`, which Claude Code addresses to its service",
     true, &is_billing},
    {"tokens",
     "token counts: `Token usage:`, `Tokens used:`, `Tokens left:`, `Tokens remaining:`, "
     "`Remaining tokens:`, `Used tokens:`, `Token count:`, `Context usage:`, `Context left:`, "
     "`Context window used:`, with a digit",
     false, &is_token_count},
    {"clock",
     "times of day: `Current time`, `Current date`, `Current datetime`, `Today's date`, `Today "
     "is`, "
     "`It is now`, `Time:`, `Date:`, `Datetime:`, `Timestamp:`, `Now:`, `Local time`, `System "
     "time`, with hours and minutes such as 09:30",
     false, &is_clock},
});

}  // namespace

std::span<const VolatileRule> volatile_rules() { return kRules; }

Result<std::vector<const VolatileRule*>> parse_volatile_rules(std::string_view names) {
  std::vector<const VolatileRule*> out;
  if (names == "none") return out;
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    names.remove_prefix(std::min(names.size(), name.size() + 1));
    const auto found = std::ranges::find(kRules, name, &VolatileRule::name);
    if (found == kRules.end()) {
      return invalid_argument("--volatile-lines has no rule '" + std::string(name) +
                              "'; it takes billing, tokens and clock, separated by commas, or "
                              "none.");
    }
    out.push_back(&*found);
  }
  return out;
}

VolatileLines::VolatileLines(std::span<const VolatileRule* const> rules,
                             std::vector<ChatMessage>& messages) {
  if (rules.empty()) return;
  for (ChatMessage& message : messages) {
    if (message.role != "system") continue;
    std::string kept;
    std::string_view rest = message.content;
    bool changed = false;
    while (!rest.empty()) {
      const size_t end = rest.find('\n');
      const std::string_view line = rest.substr(0, end);
      const std::string_view whole = rest.substr(0, end == rest.npos ? rest.size() : end + 1);
      rest.remove_prefix(whole.size());
      const auto rule =
          std::ranges::find_if(rules, [&](const auto* r) { return r->matches(line); });
      if (rule == rules.end()) {
        kept += whole;
        continue;
      }
      changed = true;
      if (std::ranges::find(applied_, (*rule)->name) == applied_.end()) {
        applied_.emplace_back((*rule)->name);
      }
      if (!(*rule)->drop) moved_.append(moved_.empty() ? "" : "\n").append(line);
    }
    if (changed) message.content = std::move(kept);
  }
}

void VolatileLines::append_moved(std::vector<ChatMessage>& messages) const {
  if (moved_.empty() || messages.empty()) return;
  const auto last = std::ranges::find_if(messages.rbegin(), messages.rend(), [](const auto& m) {
    return m.role == "user" || m.role == "tool";
  });
  (last == messages.rend() ? messages.back() : *last).content += "\n\n" + moved_;
}

}  // namespace chimere::protocol
