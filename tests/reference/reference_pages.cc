// The tables of the reference pages, from the tables of the code.
//   reference_pages DOCS           fails if a page differs
//   reference_pages DOCS --write   rewrites the pages
// A table stands between "<!-- generated: NAME -->" and "<!-- end -->"; scripts/write-reference
// builds and runs this program.
#include <array>
#include <fstream>
#include <iostream>
#include <iterator>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/settings.h"
#include "protocol/reference.h"
#include "serving/metrics_table.h"

namespace {

using chimere::SettingInfo;
using chimere::protocol::Endpoint;
using chimere::protocol::FieldInfo;
using chimere::protocol::FieldType;
using chimere::protocol::FieldUse;
using chimere::serving::MetricInfo;

std::string cell(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.insert(at, "\\");
  return text;
}

std::string row(const std::vector<std::string>& cells) {
  std::string out = "|";
  for (const std::string& text : cells) out += " " + cell(text) + (text.empty() ? "|" : " |");
  return out + "\n";
}

std::string header(const std::vector<std::string>& names) {
  std::string line = "|";
  for (size_t i = 0; i < names.size(); ++i) line += "---|";
  return row(names) + line + "\n";
}

std::string code(std::string_view text) {
  return text.empty() ? "" : "`" + std::string(text) + "`";
}

std::string number_text(double value) {
  std::ostringstream out;
  out.precision(17);
  if (value == static_cast<double>(static_cast<int64_t>(value))) {
    out << static_cast<int64_t>(value);
  } else {
    out.precision(6);
    out << value;
  }
  return out.str();
}

std::string one_of(const SettingInfo::Choices& choices) {
  std::string out;
  for (const std::string_view choice : choices) out += (out.empty() ? "" : ", ") + code(choice);
  return out;
}

/// The type of a setting's value, in a request if `json`.
std::string type_of(const SettingInfo& s, bool json) {
  const std::string range = "from " + number_text(s.min) + " to " + number_text(s.max);
  if (s.bytes) return "amount of memory, like 15.5GiB";
  if (s.json_list) return json ? "list of at most " + number_text(s.max) + " texts" : "JSON list";
  if (s.separator != '\0') {
    return (json ? "list of " : "`" + std::string(1, s.separator) + "` between ") +
           one_of(s.choices);
  }
  if (!s.choices.empty()) return one_of(s.choices);
  switch (s.kind) {
    case SettingInfo::Kind::kSwitch:
      return json ? "true or false" : "switch";
    case SettingInfo::Kind::kText:
      return "text";
    case SettingInfo::Kind::kInteger:
      return "whole number " + range;
    default:
      return "number " + range;
  }
}

std::string settings_table() {
  std::string out = header({"setting", "value", "default", "field", "meaning"});
  for (const SettingInfo* s : chimere::settings::all()) {
    // A setting that no command takes as a flag is a variable and a key only.
    std::string name = code((s->groups.empty() ? "" : "--") + std::string(s->name));
    if (!s->short_flag.empty()) name += ", " + code("-" + std::string(s->short_flag));
    if (!s->variable.empty()) name += "; " + code(s->variable);
    const bool is_switch = s->kind == SettingInfo::Kind::kSwitch;
    out += row({name, type_of(*s, false), is_switch ? "off" : code(s->default_value),
                code(s->field), std::string(s->help)});
  }
  return out;
}

std::string type_of(const FieldInfo& f) {
  if (f.setting != nullptr) return type_of(*f.setting, true);
  const std::string range = "from " + number_text(f.min) + " to " +
                            std::to_string(f.most(chimere::protocol::RequestLimits()));
  switch (f.type) {
    case FieldType::kText:
      return f.choices.empty() ? "text" : one_of(f.choices);
    case FieldType::kBoolean:
      return "true or false";
    case FieldType::kInteger:
      return "whole number " + range;
    case FieldType::kNumber:
      return "number from " + number_text(f.min) + " to " + number_text(f.max);
    case FieldType::kOther:
      return std::string(f.type_text);
  }
  return "";
}

std::string default_of(const FieldInfo& f) {
  if (f.required) return "required";
  if (f.setting != nullptr) return code("--" + std::string(f.setting->name));
  return std::string(f.default_value);
}

struct FieldLists {
  std::string rows;
  std::string without_effect;
  std::string refused;
};

void list_fields(const std::vector<FieldInfo>& fields, const std::string& path, FieldLists& out) {
  for (const FieldInfo& f : fields) {
    const std::string name = path + std::string(f.name);
    if (f.use == FieldUse::kNoEffect) {
      out.without_effect += (out.without_effect.empty() ? "" : ", ") + code(name);
      continue;
    }
    if (f.use == FieldUse::kRefused) {
      out.refused += row({code(name), std::string(f.help)});
      continue;
    }
    out.rows += row({code(name), type_of(f), default_of(f), std::string(f.help)});
    if (f.members == nullptr) continue;
    std::vector<FieldInfo> members;
    f.members(members);
    const bool list = type_of(f).find("list") != std::string::npos;
    list_fields(members, name + (list ? "[]." : "."), out);
  }
}

/// Breaks words of a paragraph at 100 columns.
std::string wrapped(const std::string& text) {
  constexpr size_t kColumns = 100;
  std::istringstream words(text);
  std::string out;
  std::string line;
  for (std::string word; words >> word;) {
    if (!line.empty() && line.size() + 1 + word.size() > kColumns) {
      out += line + "\n";
      line.clear();
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return out + line + "\n";
}

std::string fields_table() {
  std::string out;
  for (const Endpoint& e : chimere::protocol::endpoints()) {
    FieldLists lists;
    list_fields(e.fields, "", lists);
    out += (out.empty() ? "" : "\n") +
           ("### `" + std::string(e.method) + " " + std::string(e.path) + "`\n\n");
    out += header({"field", "type", "default", "meaning"}) + lists.rows;
    if (!lists.without_effect.empty()) {
      out += "\n" + wrapped("Accepted without effect: " + lists.without_effect + ".");
    }
    if (!lists.refused.empty()) out += "\n" + header({"refused field", "reason"}) + lists.refused;
  }
  return out;
}

std::string errors_table() {
  std::string out = header({"code", "status", "type", "meaning"});
  for (const auto& info : chimere::protocol::kErrorCodes) {
    std::string statuses;
    std::string types;
    for (const int status : info.statuses) {
      if (status == 0) continue;
      statuses += (statuses.empty() ? "" : ", ") + std::to_string(status);
      const std::string type = code(chimere::protocol::error_type(status));
      if (types.find(type) == std::string::npos) types += (types.empty() ? "" : ", ") + type;
    }
    out += row({code(info.name), statuses, types, std::string(info.meaning)});
  }
  return out;
}

std::string metrics_table() {
  constexpr std::array<const char*, 3> kTypes = {"counter", "gauge", "histogram"};
  std::string out = header({"metric", "type", "labels", "meaning"});
  for (const MetricInfo& info : chimere::serving::kMetrics) {
    std::string labels;
    for (const std::string_view label : info.labels) {
      if (!label.empty()) labels += (labels.empty() ? "" : ", ") + code(label);
    }
    if (info.of != chimere::serving::MetricInfo::Of::kServer) {
      labels += (labels.empty() ? "" : ", ") + code("model");
    }
    out += row({code(info.name), kTypes.at(static_cast<size_t>(info.type)), labels,
                std::string(info.help)});
  }
  return out;
}

/// What clients want of a generation, and the fields that say it in one API or another.
struct Feature {
  const char* what;
  std::vector<std::string_view> fields;
};

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = {
      {"streams", {"stream"}},
      {"usage in a stream", {"stream_options.include_usage"}},
      {"limit of tokens",
       {"max_tokens", "max_completion_tokens", "max_output_tokens", "n_predict",
        "options.num_predict"}},
      {"stop texts", {"stop", "stop_sequences", "options.stop"}},
      {"sampling", {"temperature", "options.temperature"}},
      {"seed", {"seed", "options.seed"}},
      {"several choices", {"n"}},
      {"log-probabilities", {"logprobs", "top_logprobs", "n_probs"}},
      {"tools", {"tools"}},
      {"whether there are calls", {"tool_choice"}},
      {"at most one call", {"parallel_tool_calls", "tool_choice.disable_parallel_tool_use"}},
      {"reasoning",
       {"reasoning_effort", "thinking_budget", "reasoning.effort", "thinking", "think",
        "output_config.effort"}},
      {"form of the output",
       {"response_format", "text.format", "output_config.format", "format", "json_schema",
        "grammar"}},
      {"stored conversation", {"store", "previous_response_id"}},
      {"prefix cache", {"prompt_cache_key", "user", "cache_prompt"}},
      {"adapters", {"lora"}},
      {"memories", {"engram"}},
      {"orchestrator", {"odo"}},
      {"time in memory", {"keep_alive"}},
      {"slot", {"id_slot"}},
      {"text after the place", {"suffix", "input_suffix"}}};
  return all;
}

const FieldInfo* find_field(const std::vector<FieldInfo>& fields, std::string_view path) {
  static std::vector<std::vector<FieldInfo>> kept;  // the members that results point into
  const size_t dot = path.find('.');
  for (const FieldInfo& f : fields) {
    if (f.name != path.substr(0, dot)) continue;
    if (dot == std::string_view::npos) return &f;
    if (f.members == nullptr) return nullptr;
    auto members = std::vector<FieldInfo>();
    f.members(members);
    return find_field(kept.emplace_back(std::move(members)), path.substr(dot + 1));
  }
  return nullptr;
}

/// The features of each API by the fields of its requests.
std::string features_table() {
  constexpr std::array<std::string_view, 7> kPaths = {
      "/v1/chat/completions", "/v1/responses", "/v1/messages", "/api/chat",
      "/v1/completions",      "/completion",   "/infill"};
  const std::vector<Endpoint> all = chimere::protocol::endpoints();
  std::vector<std::string> names = {"feature"};
  for (const std::string_view path : kPaths) names.push_back(code(path));
  std::string out = header(names);
  for (const Feature& feature : features()) {
    std::vector<std::string> cells = {feature.what};
    for (const std::string_view path : kPaths) {
      std::string& text = cells.emplace_back();
      for (const Endpoint& e : all) {
        if (e.path != path) continue;
        for (const std::string_view name : feature.fields) {
          const FieldInfo* const f = find_field(e.fields, name);
          if (f == nullptr) continue;
          text += (text.empty() ? "" : ", ") + code(name);
          if (f->use == FieldUse::kNoEffect) text += " without effect";
          if (f->use == FieldUse::kRefused) text += " refused";
        }
      }
    }
    out += row(cells);
  }
  return out;
}

/// The page with its generated tables; empty if a mark is missing.
std::string regenerated(const std::string& page, const std::string& table,
                        const std::string& text) {
  const std::string mark = "<!-- generated: " + table + " -->\n";
  const size_t from = page.find(mark);
  const size_t to = page.find("<!-- end -->", from);
  if (from == std::string::npos || to == std::string::npos) return "";
  return page.substr(0, from + mark.size()) + "\n" + text + "\n" + page.substr(to);
}

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

int main(int argc, char** argv) {
  const std::span<char*> arguments(argv, static_cast<size_t>(argc));
  if (argc < 2) {
    std::cerr << "usage: reference_pages DOCS [--write]\n";
    return 2;
  }
  const std::string docs = arguments[1];
  const bool write = argc > 2 && std::string_view(arguments[2]) == "--write";
  struct Table {
    const char* page;
    const char* name;
    std::string (*text)();
  };
  const std::array<Table, 5> tables = {{{"settings.md", "settings", &settings_table},
                                        {"clients.md", "features", &features_table},
                                        {"api.md", "fields", &fields_table},
                                        {"api.md", "errors", &errors_table},
                                        {"metrics.md", "metrics", &metrics_table}}};
  int failed = 0;
  for (const Table& table : tables) {
    const std::string path = docs + "/" + table.page;
    const std::string old = read_file(path);
    const std::string made = regenerated(old, table.name, table.text());
    if (made.empty()) {
      std::cerr << path << " has no place for the table '" << table.name << "'\n";
      failed = 1;
    } else if (made != old && write) {
      std::ofstream(path) << made;
    } else if (made != old) {
      std::cerr << path << ": the table '" << table.name
                << "' differs from the code; run scripts/write-reference\n";
      failed = 1;
    }
  }
  return failed;
}
