#include "text/chat_template.h"

#include <algorithm>
#include <chrono>

namespace chimere::text {
namespace {

using jinja::Dict;
using jinja::Value;

/// Templates build tokens from roles ("<|" + role + "|>"), so these words count as the template's.
/// Any other role is text like the rest of a message.
constexpr std::string_view kKnownRoles[] = {"system",      "user",        "assistant", "tool",
                                            "developer",   "function",    "ipython",   "model",
                                            "observation", "environment", "documents"};

Value with_trusted_role(const Value& message) {
  if (!message.is_dict()) return message;
  const Value* role = message.as_dict().find("role");
  if (role == nullptr || !role->is_string()) return message;
  const auto* known = std::ranges::find(kKnownRoles, role->as_bytes());
  if (known == std::end(kKnownRoles)) return message;
  Dict copy = message.as_dict();
  copy.set("role", Value::string(*known, true));
  return Value::dict(std::move(copy));
}

std::tm utc_now() {
  using namespace std::chrono;
  const auto now = floor<seconds>(system_clock::now());
  const auto day = floor<days>(now);
  const year_month_day date(day);
  const hh_mm_ss time(now - day);
  std::tm tm = {};
  tm.tm_year = static_cast<int>(date.year()) - 1900;
  tm.tm_mon = static_cast<int>(static_cast<unsigned>(date.month())) - 1;
  tm.tm_mday = static_cast<int>(static_cast<unsigned>(date.day()));
  tm.tm_hour = static_cast<int>(time.hours().count());
  tm.tm_min = static_cast<int>(time.minutes().count());
  tm.tm_sec = static_cast<int>(time.seconds().count());
  tm.tm_wday = static_cast<int>(weekday(day).c_encoding());
  tm.tm_yday = static_cast<int>((day - sys_days(date.year() / January / 1)).count());
  return tm;
}

}  // namespace

Value chat_message(std::string_view role, std::string_view content) {
  Dict message;
  message.set("role", Value::string(role, false));
  message.set("content", Value::string(content, false));
  return Value::dict(std::move(message));
}

Result<ChatTemplate> ChatTemplate::create(std::string_view source) {
  CHIMERE_TRY(jinja::Template parsed, jinja::Template::parse(source));
  return ChatTemplate(std::move(parsed));
}

Result<RenderedChat> ChatTemplate::render(const Value& messages, const ChatOptions& options) const {
  if (!messages.is_list())
    return invalid_argument("The messages of a conversation must be a list.");
  std::vector<Value> items;
  for (const Value& message : messages.as_list().items) items.push_back(with_trusted_role(message));
  Dict variables = options.extra;
  variables.set("messages", Value::list(std::move(items)));
  variables.set("add_generation_prompt", Value::boolean(options.add_generation_prompt));
  variables.set("tools", options.tools);
  if (variables.find("documents") == nullptr) variables.set("documents", Value::none());
  if (options.enable_thinking) {
    variables.set("enable_thinking", Value::boolean(*options.enable_thinking));
  }
  variables.set("bos_token", Value::string(options.bos_token, true));
  variables.set("eos_token", Value::string(options.eos_token, true));
  const std::tm now = options.now ? *options.now : utc_now();
  CHIMERE_TRY(const jinja::MarkedText text, template_.render(variables, now, options.limits));
  return RenderedChat{text.bytes(), text.trusted_ranges()};
}

std::vector<int32_t> encode_chat(const Tokenizer& tokenizer, const RenderedChat& chat) {
  return tokenizer.encode_trusted(chat.text, chat.trusted);
}

}  // namespace chimere::text
