// Reads a mapping of a YAML document by its schema and collects what is wrong, with line numbers.
#ifndef CHIMERE_ORCHESTRATOR_YAML_SECTION_H_
#define CHIMERE_ORCHESTRATOR_YAML_SECTION_H_

#include <yaml-cpp/yaml.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace chimere::orchestrator {

/// The text of a file. Errors: kInvalidData (more than 1 MiB), kIo.
Result<std::string> yaml_file(const std::string& path);

/// The problems of a document, "SOURCE:LINE: sentence" each.
class YamlProblems {
 public:
  explicit YamlProblems(std::string source) : source_(std::move(source)) {}
  void add(const YAML::Mark& mark, const std::string& what);
  bool empty() const { return lines_.empty(); }
  /// At most eight of them, one a line.
  std::string text() const;

 private:
  const std::string source_;
  std::vector<std::string> lines_;
};

/// Each read function names a key of the schema; absent keys leave the value as it is. finish()
/// reports keys that none of them named, and keys given twice.
class YamlSection {
 public:
  /// `path`: of the mapping in the document, such as "enrich."; empty: the document itself.
  YamlSection(const YAML::Node& node, std::string path, YamlProblems& problems);

  void text(const std::string& key, std::string& out);
  void number(const std::string& key, int64_t min, int64_t max, int64_t& out);
  void real(const std::string& key, double min, double max, double& out);
  void boolean(const std::string& key, bool& out);
  void texts(const std::string& key, std::vector<std::string>& out);
  /// One of these names; `take` receives its index.
  void choice(const std::string& key, const std::vector<std::string>& names,
              const std::function<void(size_t)>& take);
  /// A mapping of scalars, in the order of the file.
  void scalars(const std::string& key,
               const std::function<void(const std::string& name, const std::string& value,
                                        const YAML::Mark& mark)>& take);
  void section(const std::string& key, const std::function<void(YamlSection&)>& read);
  /// A list of mappings.
  void sections(const std::string& key, const std::function<void(YamlSection&)>& read);
  void required(const std::string& key);
  void finish();

  void fail(const std::string& key, const std::string& what);
  YAML::Mark mark() const { return node_.Mark(); }

 private:
  YAML::Node take(const std::string& key);
  bool scalar(const std::string& key, const YAML::Node& node);

  const YAML::Node node_;
  const std::string path_;
  YamlProblems& problems_;
  std::vector<std::string> known_;
};

}  // namespace chimere::orchestrator

#endif  // CHIMERE_ORCHESTRATOR_YAML_SECTION_H_
