// chimere hidden-states: what a model's layers compute while it continues texts, to train drafters
// on.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/output_file.h"
#include "base/sha256.h"
#include "base/stopwatch.h"
#include "command.h"
#include "engine/engine.h"
#include "engram_texts.h"
#include "gguf/writer.h"
#include "json.h"
#include "loading.h"
#include "progress_line.h"
#include "quant/quant.h"
#include "runtime/request.h"
#include "state/weights_hash.h"
#include "text/chat_template.h"

namespace chimere::app {
namespace {

using Json = nlohmann::ordered_json;

struct HiddenStatesFlags {
  std::string model;
  std::string texts;
  std::string output;
  std::string layer_list;
  std::vector<int32_t> layers;  ///< of the list
  std::string set = "texts";
  int64_t prompt_tokens = 256;
  int64_t parallel = 64;
  int64_t shard = 256;
};

/// A text with what the model added to it.
struct HiddenText {
  std::vector<int32_t> tokens;
  int32_t prompt = 0;  ///< tokens of the text
  /// f16 [tokens, layers * n_embd], zeros for the last token; empty without layers.
  std::vector<uint16_t> rows;
};

constexpr const char* kManifest = "hidden-states.json";
constexpr int64_t kDefaultGenerated = 256;
/// Shorter texts say too little to be continued.
constexpr size_t kMinPrompt = 8;
constexpr int32_t kMaxLayer = 4096;
constexpr const char* kLayers = "layer";
constexpr double kProgressSeconds = 0.5;

/// The prompts of a file: of JSON lines, or the documents of read_documents(). Documents and the
/// values of "prompt" are cut to `most` tokens, longer conversations left out. Errors:
/// kInvalidData.
class Prompts {
 public:
  Prompts(const runtime::LoadedModel& loaded, const Settings& settings, int64_t most)
      : loaded_(loaded), settings_(settings), most_(static_cast<size_t>(most)) {}

  Result<std::vector<std::vector<int32_t>>> read(const std::string& path) {
    std::vector<std::vector<int32_t>> prompts;
    const text::Tokenizer& tokenizer = *loaded_.tokenizer;
    if (!path.ends_with(".jsonl")) {
      CHIMERE_TRY(const auto documents, read_documents(path));
      for (const std::string& document : documents) {
        // A token has few bytes; a whole book need not be encoded for its beginning.
        auto tokens = tokenizer.encode(document.substr(0, most_ * 16), false);
        if (tokens.size() < kMinPrompt) {
          ++left_out_;
          continue;
        }
        tokens.resize(std::min(tokens.size(), most_));
        prompts.push_back(std::move(tokens));
      }
      return prompts;
    }
    CHIMERE_TRY(const std::string lines, read_file(path));
    std::istringstream stream(lines);
    int64_t number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      if (line.empty()) continue;
      auto prompt = of_line(line);
      if (!prompt.ok()) {
        return invalid_data(fmt::format("{}:{}: {}", path, number, prompt.error().message));
      }
      if (prompt->empty() || prompt->size() > most_) {
        ++left_out_;
      } else {
        prompts.push_back(*std::move(prompt));
      }
    }
    return prompts;
  }

  /// Texts that are too short, and conversations that are too long.
  int64_t left_out() const { return left_out_; }

 private:
  Result<std::vector<int32_t>> of_line(const std::string& line) {
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (row.is_discarded()) return invalid_data("the line is no JSON");
    const auto text_of = [&](const char* field) { return row.value(field, std::string()); };
    if (row.is_object() && row.contains("prompt") && row["prompt"].is_string()) {
      auto tokens = loaded_.tokenizer->encode(text_of("prompt"), /*special=*/true);
      tokens.resize(std::min(tokens.size(), most_));
      return tokens;
    }
    std::vector<text::ChatMessage> messages;
    if (row.is_object() && row.contains("question") && row["question"].is_string()) {
      messages.push_back({.role = "user", .content = text_of("question")});
    } else if (row.is_object() && row.contains("messages") && row["messages"].is_array()) {
      for (const Json& m : row["messages"]) {
        const bool whole = m.is_object() && m.contains("role") && m["role"].is_string() &&
                           m.contains("content") && m["content"].is_string();
        if (!whole) return invalid_data("a message needs a role and a content, both texts");
        messages.push_back({.role = m["role"], .content = m["content"]});
      }
      while (!messages.empty() && messages.back().role == "assistant") messages.pop_back();
    }
    if (messages.empty()) {
      return invalid_data(
          "a line is an object with \"prompt\" or \"question\", both texts, or with \"messages\", "
          "a "
          "list with at least one of the user");
    }
    if (!template_) {
      template_.emplace(runtime::load_prompt_template(*loaded_.file, *loaded_.tokenizer, settings_,
                                                      [](const std::string&) {}));
    }
    if (!template_->ok()) return template_->error();
    CHIMERE_TRY(
        const text::RenderedChat chat,
        (*template_)->render(messages, {}, {.reasoning = settings_.get(settings::kReasoning)}));
    return text::encode_chat(*loaded_.tokenizer, chat);
  }

  const runtime::LoadedModel& loaded_;
  const Settings& settings_;
  size_t most_;
  int64_t left_out_ = 0;
  std::optional<Result<text::PromptTemplate>> template_;
};

void add_rows(const engine::TappedRows& rows, HiddenText& text) {
  if (rows.position != static_cast<int32_t>(text.tokens.size())) return;  // on_finish reports it
  text.tokens.insert(text.tokens.end(), rows.tokens.begin(), rows.tokens.end());
  for (size_t r = 0; r < rows.tokens.size(); ++r) {
    for (const ConstMatrixView& output : rows.outputs) {
      const float* row = output.row(static_cast<int64_t>(r));
      std::transform(row, row + output.cols, std::back_inserter(text.rows), quant::f32_to_f16);
    }
  }
}

/// Lets the model continue the prompts, several at once. `progress` is called after each step with
/// how many are complete. Errors: those of the engine.
Result<std::vector<HiddenText>> continue_texts(engine::Engine& engine, const engine::Request& like,
                                               std::span<const std::vector<int32_t>> prompts,
                                               uint64_t first_seed,
                                               const std::function<void(size_t)>& progress) {
  std::vector<HiddenText> texts(prompts.size());
  size_t complete = 0;
  Status status;
  for (size_t i = 0; i < prompts.size(); ++i) {
    HiddenText& text = texts[i];
    text.prompt = static_cast<int32_t>(prompts[i].size());
    engine::Request request = like;
    request.prompt = prompts[i];
    request.sampling.seed = first_seed + i;
    if (!like.taps.empty()) {
      request.on_rows = [&text](const engine::TappedRows& rows) { add_rows(rows, text); };
    }
    request.on_finish = [&text, &status, &complete, &like,
                         &prompt = prompts[i]](const engine::Outcome& outcome) {
      ++complete;
      const size_t all = prompt.size() + outcome.tokens.size();
      if (like.taps.empty()) {
        text.tokens = prompt;
        for (const auto& token : outcome.tokens) text.tokens.push_back(token.id);
      }
      if (outcome.reason == engine::FinishReason::kError) {
        status = outcome.error;
      } else if (!like.taps.empty() && text.tokens.size() + 1 != all) {
        status = io_error("rows of a text could not be read back from the device");
      } else if (!like.taps.empty()) {
        text.rows.resize(text.rows.size() + text.rows.size() / text.tokens.size());
        text.tokens.push_back(outcome.tokens.back().id);
      }
    };
    CHIMERE_CHECK_OK(engine.submit(std::move(request)));
  }
  while (engine.step()) progress(complete);
  CHIMERE_CHECK_OK(status);
  return texts;
}

template <typename T>
Status add_tensor(gguf::Writer& to, const char* name, std::vector<int64_t> dims, DType type,
                  const std::vector<T>& values) {
  return to.add_tensor(name, dims, type, values.data(), values.size() * sizeof(T));
}

/// Writes a shard; train/README.md has the format. Errors: kIo.
Status write_shard(const std::string& path, const std::vector<HiddenText>& texts,
                   const HiddenStatesFlags& flags, int64_t n_embd) {
  std::vector<int32_t> tokens;
  std::vector<int32_t> starts;
  std::vector<int32_t> prompts;
  std::vector<uint16_t> rows;
  for (const HiddenText& text : texts) {
    starts.push_back(static_cast<int32_t>(tokens.size()));
    prompts.push_back(text.prompt);
    tokens.insert(tokens.end(), text.tokens.begin(), text.tokens.end());
    rows.insert(rows.end(), text.rows.begin(), text.rows.end());
  }
  gguf::Writer writer;
  writer.set_string("general.type", "hidden-states");
  if (!flags.layers.empty()) writer.set_i32s("hidden_states.layers", flags.layers);
  writer.set_u32("hidden_states.embedding_length", static_cast<uint32_t>(n_embd));
  writer.set_string("hidden_states.set", flags.set);
  const auto n = static_cast<int64_t>(tokens.size());
  const auto m = static_cast<int64_t>(starts.size());
  const int64_t width = n_embd * static_cast<int64_t>(flags.layers.size());
  CHIMERE_CHECK_OK(add_tensor(writer, "tokens", {n}, DType::kI32, tokens));
  CHIMERE_CHECK_OK(add_tensor(writer, "starts", {m}, DType::kI32, starts));
  CHIMERE_CHECK_OK(add_tensor(writer, "prompts", {m}, DType::kI32, prompts));
  if (width > 0) CHIMERE_CHECK_OK(add_tensor(writer, "rows", {width, n}, DType::kF16, rows));
  return writer.write(path);
}

std::string sha256_of(std::string_view bytes) {
  Sha256 sum;
  sum.add(bytes);
  return sum.finish();
}

/// Where inputs_of() a folder and those that are asked for differ: "--temp is 0.7 there and 0.3
/// here", separated by commas.
std::string differences(const Json& there, const Json& here) {
  std::vector<std::string> all;
  const auto compare = [&](const std::string& name, const Json& a, const Json& b,
                           std::string_view if_missing) {
    if (a == b) return;
    const auto text = [&](const Json& value) {
      if (value.is_null()) return std::string(if_missing);
      return value.is_string() ? value.get<std::string>() : value.dump();
    };
    all.push_back(fmt::format("{} is {} there and {} here", name, text(a), text(b)));
  };
  const auto of = [](const Json& object, const char* key) {
    return object.is_object() ? object.value(key, Json()) : Json();
  };
  const Json settings_there = of(there, "settings");
  const Json settings_here = of(here, "settings");
  for (const SettingInfo* setting : settings::all()) {
    const std::string name(setting->name);
    compare("--" + name, of(settings_there, name.c_str()), of(settings_here, name.c_str()),
            setting->default_value.empty() ? "not given" : setting->default_value);
  }
  constexpr std::pair<const char*, const char*> kNames[] = {
      {"model", "the model"},    {"layers", "--layers"},
      {"set", "--set"},          {"prompt_tokens", "--prompt-tokens"},
      {"shard", "--shard"},      {"max_tokens", "the number of tokens to add (-n)"},
      {"seed", "the first seed"}};
  for (const auto& [key, name] : kNames) compare(name, of(there, key), of(here, key), "not given");
  if (of(there, "weights") != of(here, "weights")) all.emplace_back("the model's weights differ");
  if (of(there, "texts_sha256") != of(here, "texts_sha256")) {
    all.emplace_back("the texts of --file differ");
  }
  if (all.empty()) all.emplace_back("another version of this program made them");
  return fmt::format("{}", fmt::join(all, ", "));
}

/// The list of finished shards, which is written anew after each.
class Manifest {
 public:
  /// Continues that of the folder if it was made with the same `inputs`; no other run may use the
  /// folder until it is destroyed. Errors: kInvalidArgument (it was made with others, or another
  /// run uses it), kInvalidData (a damaged list, or a shard with another checksum), kIo.
  static Result<Manifest> open(const std::string& folder, const Json& inputs) {
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    if (error) return io_error(folder + ": " + error.message());
    CHIMERE_TRY(auto lock, OutputFile::try_append_to(folder + "/" + kManifest + ".lock"));
    if (!lock) {
      return invalid_argument("Another run of `chimere hidden-states` writes to " + folder +
                              "; wait until it has ended, or name another folder.");
    }
    Manifest manifest(folder, *std::move(lock));
    const std::string path = folder + "/" + kManifest;
    if (!std::filesystem::exists(path)) {
      manifest.json_ = {{"inputs", inputs}, {"shards", Json::array()}};
      return manifest;
    }
    CHIMERE_TRY(const std::string text, read_file(path));
    manifest.json_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!manifest.json_.is_object() || !manifest.json_.contains("shards") ||
        !manifest.json_["shards"].is_array()) {
      return invalid_data(path + " is damaged; remove the folder's files to begin anew.");
    }
    if (const Json there = manifest.json_.value("inputs", Json()); there != inputs) {
      return invalid_argument(fmt::format(
          "{} has hidden states that were made otherwise: {}. Ask for the same, or name another "
          "folder.",
          folder, differences(there, inputs)));
    }
    for (const Json& shard : manifest.json_["shards"]) {
      const std::string file = folder + "/" + shard.value("file", std::string());
      CHIMERE_TRY(const std::string bytes, read_file(file));
      if (sha256_of(bytes) != shard.value("sha256", std::string())) {
        return invalid_data(file + " has changed since it was written; remove the folder's files.");
      }
      manifest.done_ += shard.value("texts", size_t{0});
      manifest.tokens_ += shard.value("tokens", int64_t{0});
    }
    return manifest;
  }

  size_t done() const { return done_; }       ///< texts
  int64_t tokens() const { return tokens_; }  ///< of these texts, prompts included
  std::string next_file() const { return fmt::format("{:05}.gguf", json_["shards"].size()); }
  Status add(const std::string& file, const std::vector<HiddenText>& texts) {
    int64_t tokens = 0;
    for (const HiddenText& text : texts) tokens += static_cast<int64_t>(text.tokens.size());
    CHIMERE_TRY(const std::string bytes, read_file(folder_ + "/" + file));
    json_["shards"].push_back({{"file", file},
                               {"texts", texts.size()},
                               {"tokens", tokens},
                               {"sha256", sha256_of(bytes)}});
    done_ += texts.size();
    tokens_ += tokens;
    const std::string path = folder_ + "/" + kManifest;
    const std::string partial = path + ".partial";
    std::ofstream out(partial, std::ios::binary);
    out << json_.dump(1) << '\n';
    out.close();
    std::error_code error;
    if (out) std::filesystem::rename(partial, path, error);
    return out && !error ? Status() : io_error(path + " could not be written");
  }

 private:
  Manifest(std::string folder, OutputFile lock)
      : folder_(std::move(folder)), lock_(std::move(lock)) {}

  std::string folder_;
  OutputFile lock_;
  Json json_;
  size_t done_ = 0;
  int64_t tokens_ = 0;
};

/// Settings that change what is computed, apart from those of the sampling.
constexpr std::string_view kComputing[] = {"backend",       "cache-k",      "cache-v",
                                           "chat-template", "expert-top-p", "ctx"};

Json value_of(const Settings& settings, const SettingInfo& setting) {
  switch (setting.kind) {
    case SettingInfo::Kind::kInteger:
      return settings.get(static_cast<const Setting<int64_t>&>(setting));
    case SettingInfo::Kind::kReal:
      return settings.get(static_cast<const Setting<double>&>(setting));
    case SettingInfo::Kind::kSwitch:
      return settings.get(static_cast<const Setting<bool>&>(setting));
    default:
      return settings.get(static_cast<const Setting<std::string>&>(setting));
  }
}

/// Values that are not the defaults, by name.
Json settings_of(const Settings& settings) {
  Json values = Json::object();
  for (const SettingInfo* setting : settings::all()) {
    const bool computing = std::ranges::find(kComputing, setting->name) != std::end(kComputing) ||
                           setting->name.starts_with("rope-") || setting->name.starts_with("yarn-");
    const bool counts = computing || setting->groups.has(SettingGroup::kSampling);
    if (counts && settings.is_set(*setting)) {
      values[std::string(setting->name)] = value_of(settings, *setting);
    }
  }
  return values;
}

/// Everything that the shards depend on.
Result<Json> inputs_of(const HiddenStatesFlags& flags, const engine::Request& request,
                       const gguf::Reader& model, const Settings& settings) {
  CHIMERE_TRY(const std::string texts, read_file(flags.texts));
  CHIMERE_TRY(const state::Hash128 weights, state::WeightsHash::start(model.files(), {})->get());
  Json inputs = {{"model", std::filesystem::path(model.path()).filename().string()},
                 {"weights", fmt::format("{:016x}{:016x}", weights.high, weights.low)},
                 {"texts_sha256", sha256_of(texts)},
                 {"layers", flags.layers},
                 {"set", flags.set},
                 {"prompt_tokens", flags.prompt_tokens},
                 {"max_tokens", request.max_tokens},
                 {"shard", flags.shard},
                 {"seed", request.sampling.seed},
                 {"settings", settings_of(settings)}};
  // As a file says it: numbers compare equal after a round trip.
  return Json::parse(inputs.dump());
}

/// Errors: kInvalidArgument, naming --layers.
Status check_layers(const HiddenStatesFlags& flags, const gguf::Reader& model) {
  CHIMERE_TRY(const std::string architecture, model.get_string("general.architecture"));
  CHIMERE_TRY(int64_t n_layers, model.get_int(architecture + ".block_count"));
  const auto heads = model.get_int(architecture + ".nextn_predict_layers");
  if (heads.ok()) n_layers -= *heads;
  if (flags.layers.empty() || flags.layers.back() < n_layers) return {};
  return invalid_argument(fmt::format("--layers {}: this model has the layers 0 to {}.",
                                      flags.layers.back(), n_layers - 1));
}

Status write_hidden_states(const CommandLine& line, HiddenStatesFlags& flags) {
  Settings settings = line.settings;
  CHIMERE_CHECK_OK(settings.set(settings::kSpeculate, "off", "hidden-states"));
  if (!flags.layer_list.empty()) {
    CHIMERE_TRY(flags.layers, parse_numbers(flags.layer_list, 0, kMaxLayer, kLayers));
  }
  if (!std::ranges::is_sorted(flags.layers, std::less_equal<>())) {
    return invalid_argument("--layers must rise, as in --layers 1,4,7.");
  }
  CHIMERE_TRY(auto file, open_model(settings, flags.model));
  const int64_t wanted = settings.get(settings::kMaxTokens);
  if (wanted < 1 && settings.is_set(settings::kMaxTokens)) {
    return invalid_argument(
        "-n is the number of tokens that each text is continued by: 1 or more.");
  }
  const int64_t generated = wanted > 0 ? wanted : kDefaultGenerated;
  CHIMERE_CHECK_OK(check_layers(flags, *file));
  if (std::filesystem::is_directory(flags.texts)) {
    return invalid_argument(flags.texts + " is a folder; --file takes one file.");
  }
  runtime::MemoryRequest memory;
  memory.contexts = flags.parallel;
  memory.default_context = flags.prompt_tokens + generated + 1;
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(std::move(file), settings, memory));
  Prompts reader(loaded, settings, flags.prompt_tokens);
  CHIMERE_TRY(const auto prompts, reader.read(flags.texts));
  const std::string left_out =
      reader.left_out() == 0
          ? ""
          : fmt::format(
                "{} texts were left out: documents of fewer than {} tokens, empty prompts, "
                "or conversations of more than {} (--prompt-tokens)",
                reader.left_out(), kMinPrompt, flags.prompt_tokens);
  if (prompts.empty()) {
    return invalid_data(left_out.empty() ? flags.texts + " has no texts." : left_out + ".");
  }
  if (!left_out.empty()) std::cerr << left_out << '\n';
  CHIMERE_TRY(engine::Request request, runtime::request_from(settings, loaded, {}));
  request.max_tokens = static_cast<int32_t>(generated);
  request.taps = flags.layers;
  request.speculation = engine::Speculation::off();
  if (settings.get(settings::kSeed) < 0) request.sampling.seed = 1;
  CHIMERE_TRY(const Json inputs, inputs_of(flags, request, *loaded.file, settings));
  CHIMERE_TRY(Manifest manifest, Manifest::open(flags.output, inputs));
  const auto parallel = static_cast<int32_t>(flags.parallel);
  CHIMERE_TRY(const auto engine, engine::Engine::create(*loaded.model, *loaded.tokenizer,
                                                        {.max_step_rows = loaded.step_rows,
                                                         .max_running = parallel,
                                                         .context = loaded.context,
                                                         .pool = loaded.pool.get()}));
  {
    ProgressLine progress(settings);
    const Stopwatch clock;
    double next = kProgressSeconds;
    const auto show = [&](size_t complete) {
      if (clock.seconds() < next) return;
      next = clock.seconds() + kProgressSeconds;
      const engine::EngineCounters now = engine->counters();
      const auto tokens = static_cast<double>(now.prompt_tokens + now.generated_tokens);
      progress.show(fmt::format("{} of {} texts, {:.0f} tokens a second   ",
                                manifest.done() + complete, prompts.size(),
                                tokens / clock.seconds()));
    };
    if (manifest.done() > 0 && !settings.get(settings::kQuiet)) {
      std::cerr << fmt::format("Continuing after {} texts\n", manifest.done());
    }
    while (manifest.done() < prompts.size()) {
      const size_t n = std::min(static_cast<size_t>(flags.shard), prompts.size() - manifest.done());
      CHIMERE_TRY(const std::vector<HiddenText> texts,
                  continue_texts(*engine, request, std::span(prompts).subspan(manifest.done(), n),
                                 request.sampling.seed + manifest.done(), show));
      const std::string name = manifest.next_file();
      CHIMERE_CHECK_OK(
          write_shard(flags.output + "/" + name, texts, flags, loaded.model->n_embd()));
      CHIMERE_CHECK_OK(manifest.add(name, texts));
      if (manifest.done() == prompts.size()) next = 0;
      show(0);
    }
  }
  if (line.json) {
    print_json({{"path", flags.output}, {"texts", manifest.done()}, {"tokens", manifest.tokens()}});
  } else {
    std::cout << fmt::format("{}: {} texts, {} tokens\n", flags.output, manifest.done(),
                             manifest.tokens());
  }
  return {};
}

}  // namespace

void declare_hidden_states(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<HiddenStatesFlags>();
  Command command =
      add_command(app, line, "hidden-states",
                  "Writes what layers compute while the model continues texts, to train drafters",
                  [&line, flags] { return write_hidden_states(line, *flags); });
  command.option("MODEL", flags->model, "The model: a GGUF file, or a name in the model folder")
      .required()
      .check(not_empty(kNameModel));
  command
      .option("-f,--file", flags->texts,
              "Texts to continue: JSON lines (.jsonl) with \"prompt\", \"question\" or "
              "\"messages\", or documents, each ended by a zero byte")
      .required();
  command
      .option("-o,--output", flags->output,
              "Folder for the files; an interrupted run continues there")
      .required()
      .check(not_empty("name the folder to write to"));
  command
      .option("--layers", flags->layer_list,
              "The layers, counted from 0, separated by commas: their outputs are written; without "
              "this flag the tokens alone")
      .check(number_list(0, kMaxLayer, kLayers));
  command.option("--set", flags->set, "Name of the kind of text, kept in the files").show_default();
  command
      .option("--prompt-tokens", flags->prompt_tokens,
              "Tokens that are given to the model: prompts and documents are cut, longer "
              "conversations left out")
      .range(8, 1 << 20)
      .show_default();
  command.option("--parallel", flags->parallel, "Texts that are continued at the same time")
      .range(1, 448)
      .show_default();
  command.option("--shard", flags->shard, "Texts in each file").range(1, 1 << 20).show_default();
  add_settings(command, line,
               {SettingGroup::kModel, SettingGroup::kSampling, SettingGroup::kQuiet});
}

}  // namespace chimere::app
