#include "suggestions.h"

#include <algorithm>
#include <array>

namespace chimere::app {
namespace {

constexpr std::string_view kOnGpu =
    "weights go to the GPU as far as they fit; --backend selects CPU or GPU, --vram-budget "
    "limits the GPU memory to use";
constexpr std::string_view kExperts =
    "--cpu-experts N sets the number of layers whose experts run on the CPU";
constexpr std::string_view kOneGpu = "a model runs on one GPU; --backend cuda takes the first";
constexpr std::string_view kMapped = "files are always mapped and never locked";
constexpr std::string_view kBatches = "the engine chooses the sizes of its batches";
constexpr std::string_view kAttention = "the attention kernel is chosen automatically";
constexpr std::string_view kGenerated = "use --max-tokens (-n)";
constexpr std::string_view kStandardInput =
    "`chimere run < FILE` reads a prompt from standard input; commands that take -f list it in "
    "their help";
constexpr std::string_view kChat =
    "`chimere chat` opens a conversation, `chimere run` gives one answer";
constexpr std::string_view kTemplate =
    "every chat template is read as Jinja; --chat-template chooses another one than the model's";
constexpr std::string_view kHub =
    "`chimere pull OWNER/NAME:QUANT` downloads a model; -m OWNER/NAME:QUANT selects it";
constexpr std::string_view kDrafts =
    "--speculate selects the drafter: the model's MTP head or n-gram lookup";
constexpr std::string_view kRope = "RoPE parameters are taken from the model file";
constexpr std::string_view kAdapters = "adapters are not implemented";
constexpr std::string_view kNotShown =
    "the prompt is never printed; --quiet suppresses the statistics";
constexpr std::string_view kSlots = "--max-running limits the requests that run at the same time";
constexpr std::string_view kKeyFile = "keys are in a file: --keys FILE, made by `chimere keys add`";

constexpr auto kForeignFlags = std::to_array<ForeignFlag>({
    // llama.cpp: devices, threads and batches
    {"-ngl", kOnGpu},
    {"--gpu-layers", kOnGpu},
    {"--n-gpu-layers", kOnGpu},
    {"-dev", kOneGpu},
    {"--device", kOneGpu},
    {"-sm", kOneGpu},
    {"--split-mode", kOneGpu},
    {"-ts", kOneGpu},
    {"--tensor-split", kOneGpu},
    {"-mg", kOneGpu},
    {"--main-gpu", kOneGpu},
    {"-cmoe", kExperts},
    {"--cpu-moe", kExperts},
    {"-ncmoe", kExperts},
    {"--n-cpu-moe", kExperts},
    {"-ot", kExperts},
    {"--override-tensor", kExperts},
    {"-tb", "use --threads (-t)"},
    {"--threads-batch", "use --threads (-t)"},
    {"--mlock", kMapped},
    {"--no-mmap", kMapped},
    {"-b", kBatches},
    {"--batch-size", kBatches},
    {"-ub", kBatches},
    {"--ubatch-size", kBatches},
    {"-fa", kAttention},
    {"--flash-attn", kAttention},
    // The model, the context and its cache
    {"--ctx-size", "use --ctx (-c)"},
    {"-ctk", "use --cache-k"},
    {"--cache-type-k", "use --cache-k"},
    {"-ctv", "use --cache-v"},
    {"--cache-type-v", "use --cache-v"},
    {"-hf", kHub},
    {"-hfr", kHub},
    {"--hf-repo", kHub},
    {"-hff", kHub},
    {"--hf-file", kHub},
    {"--lora", kAdapters},
    {"--lora-scaled", kAdapters},
    {"--rope-scaling", kRope},
    {"--rope-scale", kRope},
    {"--rope-freq-base", kRope},
    {"--rope-freq-scale", kRope},
    {"--prompt-cache", "`--state FILE` keeps a conversation and continues it"},
    {"--slot-save-path", "use --state-folder"},
    // Prompts and generations
    {"-f", kStandardInput},
    {"--file", kStandardInput},
    {"-bf", kStandardInput},
    {"-i", kChat},
    {"--interactive", kChat},
    {"-cnv", kChat},
    {"--conversation", kChat},
    {"-no-cnv", kChat},
    {"--no-conversation", kChat},
    {"-st", kChat},
    {"--single-turn", kChat},
    {"--jinja", kTemplate},
    {"--chat-template-file", "use --chat-template, which takes files, too"},
    {"--no-display-prompt", kNotShown},
    {"--no-perf", kNotShown},
    {"--log-disable", kNotShown},
    {"--predict", kGenerated},
    {"--n-predict", kGenerated},
    {"-r", "use --stop"},
    {"--reverse-prompt", "use --stop"},
    {"--reasoning-budget", "use --reasoning"},
    {"--reasoning-format", "reasoning is always apart from the answer"},
    {"--grammar-file", "use --grammar FILE"},
    {"-j", "use --json-schema FILE"},
    {"--json-schema-file", "use --json-schema FILE"},
    // Sampling
    {"--temperature", "use --temp"},
    {"--typical-p", "use --typical"},
    {"--top-n-sigma", "use --top-nsigma"},
    {"--sampling-seq", "use --samplers"},
    {"--sampler-seq", "use --samplers"},
    {"--dry-sequence-breaker", "use --dry-sequence-breakers, which takes a JSON list"},
    // Drafts
    {"-md", kDrafts},
    {"--model-draft", kDrafts},
    {"--draft", kDrafts},
    {"--draft-max", kDrafts},
    {"--draft-min", kDrafts},
    {"--draft-n", kDrafts},
    // The server
    {"-np", kSlots},
    {"--parallel", kSlots},
    {"--api-key", kKeyFile},
    {"--api-key-file", kKeyFile},
    {"--ssl-key-file", "use --tls-key"},
    {"--ssl-cert-file", "use --tls-certificate"},
    {"--embedding", "`chimere embed` makes vectors; `chimere serve` has --embedding-model"},
    {"--embeddings", "`chimere embed` makes vectors; `chimere serve` has --embedding-model"},
    // vLLM
    {"--max-model-len", "use --ctx (-c)"},
    {"--max-num-seqs", kSlots},
    {"--gpu-memory-utilization", "use --vram-budget, which takes an amount like 15.5GiB"},
    {"--kv-cache-dtype", "use --cache-k and --cache-v"},
    {"--served-model-name", "use --alias"},
    {"--tensor-parallel-size", kOneGpu},
    {"--speculative-config", kDrafts},
});

/// The text as one word of a shell.
std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out + "'";
}

}  // namespace

std::span<const ForeignFlag> foreign_flags() { return kForeignFlags; }

const ForeignFlag* find_foreign_flag(std::span<const std::string> arguments,
                                     const std::function<bool(const std::string&)>& own) {
  for (const std::string& argument : arguments) {
    if (argument == "--") break;  // flags end here
    const std::string name = argument.substr(0, argument.find('='));
    const auto* const found = std::ranges::find(kForeignFlags, name, &ForeignFlag::name);
    if (found != kForeignFlags.end() && !own(name)) return found;
  }
  return nullptr;
}

std::string prompt_suggestion(const std::vector<std::string>& words) {
  std::string prompt;
  for (const std::string& word : words) {
    if (word.starts_with('-')) return "";
    prompt += (prompt.empty() ? "" : " ") + word;
  }
  if (prompt.empty()) return "";
  return "did you mean `chimere run " + shell_quoted(prompt) + "`";
}

std::string command_suggestion(std::span<const std::string> words) {
  const auto is_prompt = [](const std::string& word) {
    return word == "-p" || word == "--prompt" || word.starts_with("--prompt=");
  };
  if (std::ranges::none_of(words, is_prompt)) return "";
  std::string line = "flags follow the command: chimere run";
  for (const std::string& word : words) {
    constexpr std::string_view kPlain =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_./:=,+@%";
    const bool plain = !word.empty() && word.find_first_not_of(kPlain) == std::string::npos;
    line += " " + (plain ? word : shell_quoted(word));
  }
  return line;
}

}  // namespace chimere::app
