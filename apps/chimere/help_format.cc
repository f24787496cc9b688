#include "help_format.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "wrap_text.h"

namespace chimere::app {
namespace {

constexpr size_t kTextColumn = 26;
constexpr size_t kWidest = 100;
/// A command with more flags begins with those that people need first.
constexpr size_t kManyFlags = 20;
constexpr auto kNeededFirst = std::to_array<std::string_view>(
    {"--model", "--prompt", "--system", "--file", "--port", "--ctx", "--max-tokens", "--temp",
     "--json-schema", "--state", "--keys", "--backend", "--verbose", "--quiet", "--help"});

using FlagList = std::vector<const CLI::Option*>;

/// "INT:INT in [0 - 9]" is "from 0 to 9", "TEXT:{a,b}" is "one of a, b".
std::string limits_of(const std::string& type) {
  const size_t range = type.find(" in [");
  if (range != std::string::npos) {
    std::string limits = type.substr(range + 5, type.find(']', range) - range - 5);
    const size_t dash = limits.find(" - ");
    if (dash != std::string::npos) limits.replace(dash, 3, " to ");
    return "from " + limits;
  }
  const size_t list = type.find('{');
  if (list == std::string::npos) return "";
  std::string out = "one of ";
  for (const char c : type.substr(list + 1, type.find('}', list) - list - 1)) {
    out += c;
    if (c == ',') out += ' ';
  }
  return out;
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_help(const CLI::App* app, std::string name, CLI::AppFormatMode) const override {
    const auto width =
        static_cast<size_t>(std::max(0, terminal_size(StandardStream::kOutput).columns));
    const size_t columns = std::min(width, kWidest);
    std::string out = wrap_text(app->get_description(), 0, columns, 0) + "\n\n";
    std::string usage = make_usage(app, name);
    while (usage.ends_with('\n')) usage.pop_back();
    out += wrap_text(usage, 4, columns, 0) + "\n";
    const size_t space = name.find(' ');
    out += examples(space == std::string::npos ? "" : name.substr(space + 1));
    out += positionals(*app, columns) + flags(*app, columns) + commands(*app, columns);
    if (!app->get_footer().empty())
      out += "\n" + wrap_text(app->get_footer(), 0, columns, 0) + "\n";
    return out;
  }

 private:
  static std::string examples(std::string_view command) {
    const CommandNotes* notes = find_command_notes(command);
    if (notes == nullptr) return "";
    std::string out = "\nExamples:\n";
    for (const std::string_view example :
         {notes->example, notes->second_example, notes->third_example}) {
      if (!example.empty()) out.append("  ").append(example).append("\n");
    }
    return out;
  }

  static std::string row(const CLI::Option& option, bool positional, size_t columns) {
    std::string name = option.get_name(positional, !positional);
    std::string text = option.get_description();
    if (option.get_expected_max() > 0 && option.get_type_size() != 0) {
      const std::string type = option.get_type_name();
      const std::string kind = type.substr(0, type.find(':'));
      const bool many = option.get_expected_max() >= CLI::detail::expected_max_vector_size;
      if (!positional) name += kind == "INT" || kind == "FLOAT" ? " N" : " " + kind;
      if (many) name += " ...";
      std::string more = limits_of(type);
      const std::string value = option.get_default_str();
      if (!value.empty()) more += (more.empty() ? "default: " : "; default: ") + value;
      if (!more.empty()) text += " (" + more + ")";
    }
    if (option.get_required()) text += " [required]";
    std::vector<std::string> excluded;
    for (const CLI::Option* other : option.get_excludes()) excluded.push_back(other->get_name());
    std::ranges::sort(excluded);
    for (const std::string& other : excluded) {
      text += (other == excluded.front() ? " [not with " : ", ") + other;
    }
    if (!excluded.empty()) text += "]";
    return list_row(name, text, kTextColumn, columns);
  }

  static std::string positionals(const CLI::App& app, size_t columns) {
    std::string out;
    for (const CLI::Option* option : app.get_options()) {
      if (option->get_positional()) out += row(*option, true, columns);
    }
    return out.empty() ? out : "\nArguments:\n" + out;
  }

  static std::string flags(const CLI::App& app, size_t columns) {
    FlagList left =
        app.get_options([](const CLI::Option* option) { return option->nonpositional(); });
    std::string out;
    const auto add_group = [&](std::string_view heading, const FlagList& chosen) {
      if (chosen.empty()) return;
      out.append("\n").append(heading).append(":\n");
      for (const CLI::Option* option : chosen) {
        out += row(*option, false, columns);
        std::erase(left, option);
      }
    };
    if (left.size() > kManyFlags) {
      FlagList first;
      for (const std::string_view name : kNeededFirst) {
        const CLI::Option* option = app.get_option_no_throw(std::string(name));
        if (option != nullptr) first.push_back(option);
      }
      add_group("Needed most", first);
    }
    for (const std::string& group : app.get_groups()) {
      FlagList chosen;
      std::ranges::copy_if(left, std::back_inserter(chosen),
                           [&](const CLI::Option* option) { return option->get_group() == group; });
      add_group(group, chosen);
    }
    return out;
  }

  static std::string commands(const CLI::App& app, size_t columns) {
    const auto below = app.get_subcommands([](const CLI::App*) { return true; });
    if (below.empty()) return "";
    size_t width = 0;
    for (const CLI::App* command : below) width = std::max(width, command->get_name().size());
    const auto list = [&](const CLI::App& command) {
      return list_row(command.get_name(), command.get_description(), width + 4, columns);
    };
    std::string out;
    if (app.get_parent() != nullptr) {
      out = "\nSubcommands:\n";
      for (const CLI::App* command : below) out += list(*command);
      return out;
    }
    std::string_view group;
    for (const CommandNotes& notes : command_notes()) {
      const auto found = std::ranges::find_if(
          below, [&](const CLI::App* command) { return command->get_name() == notes.command; });
      if (found == below.end()) continue;
      if (notes.group != group) out.append("\n").append(notes.group).append(":\n");
      group = notes.group;
      out += list(**found);
    }
    return out;
  }
};

}  // namespace

std::string_view flag_group(const SettingInfo& setting) {
  struct Heading {
    SettingGroup group;
    std::string_view text;
  };
  // The first that a setting belongs to; groups that hold others come after them.
  constexpr auto kHeadings = std::to_array<Heading>({
      {SettingGroup::kQuiet, "Options"},
      {SettingGroup::kVerbose, "Options"},
      {SettingGroup::kModelName, "Model"},
      {SettingGroup::kModelFolder, "Model"},
      {SettingGroup::kAdapters, "Model"},
      {SettingGroup::kChatTemplate, "Model"},
      {SettingGroup::kHub, "Downloads"},
      {SettingGroup::kDevice, "Device and memory"},
      {SettingGroup::kThreads, "Device and memory"},
      {SettingGroup::kSampling, "Sampling"},
      {SettingGroup::kEngramTables, "N-gram tables"},
      {SettingGroup::kTokenizerCheck, "N-gram tables"},
      {SettingGroup::kEngram, "N-gram tables"},
      {SettingGroup::kModel, "Context and decoding"},
      {SettingGroup::kDrafter, "Context and decoding"},
      {SettingGroup::kPooling, "Embeddings"},
      {SettingGroup::kCollections, "Collections"},
      {SettingGroup::kStateFolder, "Files"},
      {SettingGroup::kKeys, "Server"},
      {SettingGroup::kPrefixCache, "Server"},
      {SettingGroup::kServer, "Server"},
  });
  for (const Heading& heading : kHeadings) {
    if (setting.groups.has(heading.group)) return heading.text;
  }
  return "Options";
}

void set_help_format(CLI::App& program) {
  const auto format = std::make_shared<HelpFormatter>();
  format->label("OPTIONS", "FLAGS");
  format->label("SUBCOMMAND", "COMMAND");
  program.formatter(format);
}

}  // namespace chimere::app
