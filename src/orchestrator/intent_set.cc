#include "orchestrator/intent_set.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "orchestrator/pipeline.h"
#include "orchestrator/yaml_section.h"

namespace chimere::orchestrator {
namespace {

/// Fewer examples than this cannot be told from the other intents.
constexpr size_t kLeastExamples = 3;

void append(std::vector<std::string>& to, const std::vector<std::string>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

/// A new intent, or more of a known one.
void merge(IntentSpec more, std::vector<IntentSpec>& intents) {
  const auto known = std::ranges::find(intents, more.name, &IntentSpec::name);
  if (known == intents.end()) {
    intents.push_back(std::move(more));
    return;
  }
  append(known->phrases, more.phrases);
  append(known->files, more.files);
  append(known->actions, more.actions);
  append(known->subjects, more.subjects);
  append(known->names, more.names);
  append(known->examples, more.examples);
}

}  // namespace

Result<IntentSpec> parse_intent(std::string_view yaml, const std::string& source) {
  YamlProblems problems(source);
  IntentSpec out;
  try {
    const YAML::Node document = YAML::Load(std::string(yaml));
    if (!document.IsMap()) return invalid_data(source + ":1: An intent is a mapping of keys.");
    YamlSection section(document, "", problems);
    section.text("name", out.name);
    section.required("name");
    if (!out.name.empty() && !is_valid_name(out.name)) {
      section.fail("name", "may have small letters, digits, - and _ only");
    }
    section.texts("phrases", out.phrases);
    section.texts("files", out.files);
    section.texts("actions", out.actions);
    section.texts("subjects", out.subjects);
    section.texts("names", out.names);
    section.texts("examples", out.examples);
    section.required("examples");
    if (!out.examples.empty() && out.examples.size() < kLeastExamples) {
      section.fail("examples", "must have " + std::to_string(kLeastExamples) + " at least");
    }
    section.finish();
  } catch (const YAML::Exception& e) {
    problems.add(e.mark, "The file is no valid YAML: " + e.msg + ".");
  }
  if (!problems.empty()) return invalid_data(problems.text());
  return out;
}

Result<std::vector<IntentSpec>> read_intents(const std::string& folder) {
  std::vector<IntentSpec> out;
  for (const ShippedIntent& shipped : shipped_intents()) {
    CHIMERE_TRY(IntentSpec intent, parse_intent(shipped.yaml, std::string(shipped.name) + ".yaml"));
    merge(std::move(intent), out);
  }
  if (folder.empty()) return out;
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (std::filesystem::directory_iterator it(folder, error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().extension() == ".yaml") files.push_back(it->path());
  }
  std::ranges::sort(files);  // the same order makes the same classifier
  for (const std::filesystem::path& path : files) {
    const std::string name = path.filename().string();
    CHIMERE_TRY(const std::string text, yaml_file(path.string()));
    CHIMERE_TRY(IntentSpec intent, parse_intent(text, name));
    if (intent.name != path.stem().string()) {
      return invalid_data(name + ":1: The intent is named '" + intent.name +
                          "'; the file of that name is " + intent.name + ".yaml.");
    }
    merge(std::move(intent), out);
  }
  return out;
}

}  // namespace chimere::orchestrator
