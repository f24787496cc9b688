#include "orchestrator/yaml_section.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <utility>

namespace chimere::orchestrator {

Result<std::string> yaml_file(const std::string& path) {
  constexpr uintmax_t kMostBytes = 1 << 20;
  const std::filesystem::path file(path);
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(file, error);
  if (!error && size > kMostBytes) {
    return invalid_data(file.filename().string() + ":1: The file is larger than 1 MiB.");
  }
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  if (!in) return io_error("The file '" + path + "' cannot be read.");
  return std::move(text).str();
}

void YamlProblems::add(const YAML::Mark& mark, const std::string& what) {
  lines_.push_back(source_ + ":" + std::to_string(mark.is_null() ? 1 : mark.line + 1) + ": " +
                   what);
}

std::string YamlProblems::text() const {
  constexpr size_t kMost = 8;
  std::string out;
  for (size_t i = 0; i < std::min(kMost, lines_.size()); ++i) {
    if (i > 0) out += '\n';
    out += lines_[i];
  }
  if (lines_.size() > kMost) out += "\nand " + std::to_string(lines_.size() - kMost) + " more";
  return out;
}

YamlSection::YamlSection(const YAML::Node& node, std::string path, YamlProblems& problems)
    : node_(node), path_(std::move(path)), problems_(problems) {}

YAML::Node YamlSection::take(const std::string& key) {
  known_.push_back(key);
  if (!node_.IsMap()) return {};
  const YAML::Node found = node_[key];
  return found.IsDefined() ? found : YAML::Node();
}

void YamlSection::fail(const std::string& key, const std::string& what) {
  const YAML::Node found = node_.IsMap() ? node_[key] : YAML::Node();
  problems_.add(found.IsDefined() && !found.IsNull() ? found.Mark() : node_.Mark(),
                "'" + path_ + key + "' " + what + ".");
}

bool YamlSection::scalar(const std::string& key, const YAML::Node& node) {
  if (node.IsScalar()) return true;
  if (!node.IsNull()) fail(key, "must be a single value");
  return false;
}

void YamlSection::text(const std::string& key, std::string& out) {
  const YAML::Node node = take(key);
  if (scalar(key, node)) out = node.Scalar();
}

void YamlSection::number(const std::string& key, int64_t min, int64_t max, int64_t& out) {
  const YAML::Node node = take(key);
  if (!scalar(key, node)) return;
  int64_t value = 0;
  if (!YAML::convert<int64_t>::decode(node, value) || value < min || value > max) {
    return fail(key, "must be a whole number from " + std::to_string(min) + " to " +
                         std::to_string(max) + ", not '" + node.Scalar() + "'");
  }
  out = value;
}

void YamlSection::real(const std::string& key, double min, double max, double& out) {
  const YAML::Node node = take(key);
  if (!scalar(key, node)) return;
  double value = 0;
  const bool is_number = YAML::convert<double>::decode(node, value);
  const bool within = value >= min && value <= max;  // no NaN is
  if (!is_number || !within) {
    return fail(key, "must be a number from " + std::to_string(min) + " to " + std::to_string(max) +
                         ", not '" + node.Scalar() + "'");
  }
  out = value;
}

void YamlSection::boolean(const std::string& key, bool& out) {
  const YAML::Node node = take(key);
  if (!scalar(key, node)) return;
  if (!YAML::convert<bool>::decode(node, out)) {
    fail(key, "must be true or false, not '" + node.Scalar() + "'");
  }
}

void YamlSection::texts(const std::string& key, std::vector<std::string>& out) {
  const YAML::Node node = take(key);
  if (node.IsNull()) return;
  if (!node.IsSequence()) return fail(key, "must be a list, such as [a, b]");
  std::vector<std::string> values;
  for (const YAML::Node& item : node) {
    if (!item.IsScalar() || item.Scalar().empty()) {
      problems_.add(item.Mark(), "Each item of '" + path_ + key + "' must be a single value.");
      return;
    }
    values.push_back(item.Scalar());
  }
  out = std::move(values);
}

void YamlSection::choice(const std::string& key, const std::vector<std::string>& names,
                         const std::function<void(size_t)>& take_index) {
  const YAML::Node node = take(key);
  if (!scalar(key, node)) return;
  const auto found = std::ranges::find(names, node.Scalar());
  if (found == names.end()) {
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    return fail(key, "must be one of " + list + ", not '" + node.Scalar() + "'");
  }
  take_index(static_cast<size_t>(found - names.begin()));
}

void YamlSection::scalars(const std::string& key,
                          const std::function<void(const std::string&, const std::string&,
                                                   const YAML::Mark&)>& take_one) {
  const YAML::Node node = take(key);
  if (node.IsNull()) return;
  if (!node.IsMap()) return fail(key, "must be a mapping of names to values");
  for (const auto& entry : node) {
    const YAML::Node& name = entry.first;
    const YAML::Node& value = entry.second;
    if (!name.IsScalar() || !value.IsScalar()) {
      problems_.add(name.Mark(), "'" + path_ + key + "' must map names to single values.");
      continue;
    }
    take_one(name.Scalar(), value.Scalar(), name.Mark());
  }
}

void YamlSection::section(const std::string& key, const std::function<void(YamlSection&)>& read) {
  const YAML::Node node = take(key);
  if (node.IsNull()) return;
  if (!node.IsMap()) return fail(key, "must be a mapping");
  YamlSection inner(node, path_ + key + ".", problems_);
  read(inner);
  inner.finish();
}

void YamlSection::sections(const std::string& key, const std::function<void(YamlSection&)>& read) {
  const YAML::Node node = take(key);
  if (node.IsNull()) return;
  if (!node.IsSequence()) return fail(key, "must be a list of mappings");
  size_t index = 0;
  for (const YAML::Node& item : node) {
    const std::string path = path_ + key + "[" + std::to_string(index++) + "].";
    if (!item.IsMap()) {
      problems_.add(item.Mark(), "'" + path_ + key + "' must be a list of mappings.");
      continue;
    }
    YamlSection inner(item, path, problems_);
    read(inner);
    inner.finish();
  }
}

void YamlSection::required(const std::string& key) {
  if (!node_[key].IsDefined() || node_[key].IsNull()) {
    problems_.add(node_.Mark(), "'" + path_ + key + "' is missing.");
  }
}

void YamlSection::finish() {
  std::set<std::string> seen;
  for (const auto& entry : node_) {
    const YAML::Node& name = entry.first;
    const std::string key = name.IsScalar() ? name.Scalar() : "";
    if (!seen.insert(key).second) {
      problems_.add(name.Mark(), "'" + path_ + key + "' is given twice.");
    } else if (std::ranges::find(known_, key) == known_.end()) {
      std::string reason = "'" + path_ + key + "' is no key here; the keys are ";
      for (size_t i = 0; i < known_.size(); ++i) {
        if (i > 0) reason += ", ";
        reason += known_[i];
      }
      reason += '.';
      problems_.add(name.Mark(), reason);
    }
  }
}

}  // namespace chimere::orchestrator
