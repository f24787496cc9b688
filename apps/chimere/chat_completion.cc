#include "chat_completion.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "base/byte_amount.h"
#include "base/system.h"
#include "chat_commands.h"
#include "runtime/model_facts.h"
#include "runtime/model_path.h"

namespace chimere::app {
namespace {

namespace fs = std::filesystem;
using terminal::Candidate;
using terminal::Completions;

/// Entries of a folder that are looked at.
constexpr size_t kMostEntries = 5000;

void add_files(std::string_view typed, std::vector<Candidate>& out) {
  const size_t slash = typed.rfind('/');
  const std::string head(slash == std::string_view::npos ? "" : typed.substr(0, slash + 1));
  const std::string_view name = typed.substr(head.size());
  std::string folder = head.empty() ? "." : head;
  if (folder.starts_with("~/")) folder = home_folder() + folder.substr(1);
  std::error_code error;
  fs::directory_iterator at(folder, error);
  for (size_t seen = 0; !error && at != fs::directory_iterator() && seen < kMostEntries; ++seen) {
    const std::string entry = at->path().filename().string();
    if (entry.starts_with(name) && (!entry.starts_with('.') || name.starts_with('.'))) {
      std::error_code unreadable;
      const bool is_folder = at->is_directory(unreadable);
      out.push_back({head + entry + (is_folder ? "/" : ""), "", !is_folder});
    }
    at.increment(error);
  }
}

/// Models that can answer.
void add_models(std::string_view typed, const Settings& settings, std::vector<Candidate>& out) {
  for (const runtime::NamedModel& m : runtime::named_models(settings)) {
    if (!m.name.starts_with(typed)) continue;
    if (runtime::file_kind(m.path) != runtime::FileKind::kText) continue;
    out.push_back(
        {m.name, m.shipped ? "comes with the program" : human_bytes(static_cast<double>(m.bytes))});
  }
}

void add_options(std::string_view typed, std::vector<Candidate>& out) {
  for (const SettingInfo* s : settings::in_group(SettingGroup::kSampling)) {
    if (s->name.starts_with(typed)) out.push_back({std::string(s->name), std::string(s->help)});
  }
}

void add_choices(std::string_view option, std::string_view typed, std::vector<Candidate>& out) {
  const SettingInfo* s = settings::find(option);
  if (s == nullptr) return;
  for (const std::string_view choice : s->choices) {
    if (choice.starts_with(typed)) out.push_back({std::string(choice)});
  }
}

}  // namespace

Completions complete_chat(std::string_view before, const Settings& settings) {
  using Argument = ChatCommand::Argument;
  Completions out;
  if (!before.starts_with('/') || before.find('\n') != std::string_view::npos) return out;
  const size_t space = before.find(' ');
  if (space == std::string_view::npos) {
    for (const ChatCommand& c : chat_commands()) {
      if (!c.name.starts_with(before)) continue;
      out.candidates.push_back({std::string(c.name), std::string(c.help)});
    }
    return out;
  }
  const ChatCommand* command = find_chat_command(before.substr(0, space));
  if (command == nullptr) return out;
  out.begin = std::min(before.find_first_not_of(' ', space), before.size());
  std::string_view typed = before.substr(out.begin);
  switch (command->completes) {
    case Argument::kModel:
      add_models(typed, settings, out.candidates);
      break;
    case Argument::kFile:
      add_files(typed, out.candidates);
      break;
    case Argument::kSetting:
      if (const size_t between = typed.find(' '); between != std::string_view::npos) {
        out.begin += between + 1;
        add_choices(typed.substr(0, between), typed.substr(between + 1), out.candidates);
      } else {
        add_options(typed, out.candidates);
      }
      break;
    case Argument::kSwitch:
      for (const char* word : {"on", "off"}) {
        if (std::string_view(word).starts_with(typed)) out.candidates.push_back({word});
      }
      break;
    default:
      break;
  }
  std::ranges::sort(out.candidates, {}, &Candidate::text);
  return out;
}

}  // namespace chimere::app
