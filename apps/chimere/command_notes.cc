// Groups and examples of the commands.
#include <algorithm>
#include <array>

#include "help_format.h"

namespace chimere::app {
namespace {

constexpr std::string_view kAnswers = "Questions and answers";
constexpr std::string_view kModels = "Models";
constexpr std::string_view kServers = "Servers";
constexpr std::string_view kDocuments = "Documents";
constexpr std::string_view kMeasure = "Measurements and tables";
constexpr std::string_view kProgram = "The program";

constexpr auto kNotes = std::to_array<CommandNotes>({
    {"", "", R"(chimere "What does ls do?")", R"(chimere run MODEL "What does ls do?")",
     "chimere chat"},
    {"run", kAnswers, R"(chimere run "What does ls do?")",
     R"(chimere run --system "Be brief." "What does ls do?")",
     R"(chimere run "Summarise this:" < notes.txt)"},
    {"chat", kAnswers, "chimere chat -m model.gguf", "chimere chat --state talk.state"},
    {"ask", kAnswers, R"(chimere ask --collection docs "What is a slot?")"},
    {"list", kModels, "chimere list"},
    {"models", kModels, "chimere models --for-this-machine"},
    {"pull", kModels, "chimere pull unsloth/Qwen3.5-4B-GGUF:Q4_K_M"},
    {"rm", kModels, "chimere rm qwen"},
    {"inspect", kModels, "chimere inspect model.gguf"},
    {"convert", kModels, "chimere convert folder -o model.gguf"},
    {"quantize", kModels, "chimere quantize model.gguf -o q4.gguf --type q4_K"},
    {"imatrix", kModels, "chimere imatrix model.gguf -f text.txt -o imatrix.gguf"},
    {"hidden-states", kModels,
     "chimere hidden-states model.gguf -f prompts.jsonl -o states --layers 1,4,7"},
    {"serve", kServers, "chimere serve -m model.gguf --port 8080"},
    {"keys", kServers, "chimere keys add ann"},
    {"keys add", "", "chimere keys add ann --parallel 4"},
    {"keys list", "", "chimere keys list"},
    {"keys rm", "", "chimere keys rm ann"},
    {"odo", kServers, "chimere odo --upstream http://127.0.0.1:8080/v1"},
    {"odo check", "", "chimere odo check review.yaml"},
    {"odo explain", "", "chimere odo explain -n 3"},
    {"mcp", kServers, "chimere mcp --collection docs"},
    {"state", kServers, "chimere state purge"},
    {"state purge", "", "chimere state purge --unused 24"},
    {"collection", kDocuments, "chimere collection add docs README.md folder"},
    {"collection add", "", "chimere collection add docs README.md folder"},
    {"collection update", "", "chimere collection update docs"},
    {"collection list", "", "chimere collection list"},
    {"collection rm", "", "chimere collection rm docs"},
    {"collection search", "", R"(chimere collection search docs "free a port")"},
    {"embed", kDocuments, R"(chimere embed "What does ls do?")"},
    {"rerank", kDocuments, R"(chimere rerank -m reranker.gguf "list files" ls cp)"},
    {"bench", kMeasure, "chimere bench -m model.gguf -p 512 -n 64"},
    {"eval", kMeasure, "chimere eval perplexity -f text.txt"},
    {"eval logits", "", "chimere eval logits --tokens 1,2,3"},
    {"eval perplexity", "", "chimere eval perplexity -f text.txt"},
    {"eval divergence", "", "chimere eval divergence -f text.txt --cache-k q8_0"},
    {"engram", kMeasure, "chimere engram build -o docs.engr README.md"},
    {"engram build", "", "chimere engram build -o docs.engr README.md folder"},
    {"engram merge", "", "chimere engram merge -o all.engr a.engr b.engr"},
    {"engram decay", "", "chimere engram decay docs.engr"},
    {"engram prune", "", "chimere engram prune docs.engr --min 2"},
    {"engram inspect", "", "chimere engram inspect docs.engr"},
    {"engram query", "", R"(chimere engram query docs.engr -p "The command")"},
    {"engram eval", "", "chimere engram eval docs.engr -f text.txt"},
    {"engram fit", "", "chimere engram fit docs.engr -f text.txt"},
    {"tokenize", kMeasure, R"(chimere tokenize "What does ls do?")"},
    {"detokenize", kMeasure, "chimere detokenize 1,2,3"},
    {"completion", kProgram, "chimere completion bash > chimere.bash"},
    {"man", kProgram, "chimere man > chimere.1"},
    {"help", kProgram, "chimere help run"},
    {"version", kProgram, "chimere version"},
});

}  // namespace

std::span<const CommandNotes> command_notes() { return kNotes; }

const CommandNotes* find_command_notes(std::string_view command) {
  const auto* const found = std::ranges::find(kNotes, command, &CommandNotes::command);
  return found == kNotes.end() ? nullptr : found;
}

}  // namespace chimere::app
