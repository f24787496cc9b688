// The tool that runs code of a model, in a sandbox or not at all.
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/sandbox.h"
#include "orchestrator/tools/tool.h"

namespace chimere::orchestrator {
namespace {

constexpr auto kCodeTime = std::chrono::seconds(10);
constexpr int64_t kCodeProcessorSeconds = 8;
constexpr int64_t kCodeMemory = int64_t{512} << 20;
constexpr size_t kCodeOutput = 16 << 10;
constexpr size_t kMostCode = 64 << 10;
/// Processes of the sandbox together.
constexpr const char* kProcesses = "--nproc=64";

class RunCode final : public Tool {
 public:
  const text::Tool& definition() const override { return definition_; }
  Effect effect() const override { return Effect::kExternal; }
  Result<std::string> call(const std::string& arguments, const ToolContext& /*context*/) override {
    const auto parsed = nlohmann::json::parse(arguments, nullptr, false);
    const auto text = [&](const char* name) {
      const bool given = parsed.is_object() && parsed.contains(name) && parsed[name].is_string();
      return given ? parsed[name].get<std::string>() : std::string();
    };
    const std::string language = text("language").empty() ? "python" : text("language");
    const std::string code = text("code");
    if (code.empty()) return invalid_argument("The arguments must have the text 'code'.");
    if (code.size() > kMostCode) return invalid_argument("The code has more than 64 KiB.");
    ChildCommand command;
    if (language == "python") {
      command.words = {"python3", "-I", "-B", "-"};
    } else if (language == "sh") {
      command.words = {"sh", "-s"};
    } else {
      return invalid_argument("'language' is 'python' or 'sh'.");
    }
    const std::string program = find_system_program(command.words[0]);
    if (program.empty()) return not_found("There is no " + command.words[0] + " on this machine.");
    command.words[0] = program;
    command.words.insert(command.words.begin(), {"prlimit", kProcesses});
    command.memory_bytes = kCodeMemory;
    command.cpu_seconds = kCodeProcessorSeconds;
    command.discard_errors = true;
    auto shut_in = sandboxed(std::move(command));
    if (!shut_in.ok()) {
      return unsupported("Code is run in a sandbox only, and there is none here: " +
                         shut_in.error().message);
    }
    // Its errors belong to what it says.
    std::string input = code;
    if (language == "sh") input = "exec 2>&1\n" + code;
    if (language == "python") {
      input = "import os\nos.dup2(1, 2)\n" + code;
    }
    CHIMERE_TRY(const ChildOutput done, run_child(*shut_in, input, kCodeTime, kCodeOutput));
    std::string out = done.text;
    if (done.truncated) out += "\n[the output was cut after 16 KiB]";
    if (done.timed_out) out += "\n[ended after 10 seconds]";
    if (!done.timed_out && !done.truncated && done.code != 0) {
      out += "\n[exit code " + std::to_string(done.code) + "]";
    }
    return out.empty() ? std::string("[no output]") : out;
  }

 private:
  const text::Tool definition_ = {
      "run_code",
      "Runs a short program without network and files, for at most 10 seconds; returns what it "
      "prints.",
      R"({"type":"object","properties":{"language":{"type":"string","enum":["python","sh"]},"code":{"type":"string"}},"required":["code"]})",
      false};
};

}  // namespace

std::shared_ptr<Tool> run_code_tool() { return std::make_shared<RunCode>(); }

}  // namespace chimere::orchestrator
