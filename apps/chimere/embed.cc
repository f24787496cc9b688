// chimere embed: texts to vectors.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "json.h"
#include "loading.h"
#include "runtime/loaded_embedder.h"

namespace chimere::app {
namespace {

struct EmbedFlags {
  std::vector<std::string> texts;
  int64_t dimensions = 0;
};

/// Each text's vectors, one for each token.
std::vector<std::vector<std::vector<float>>> split_rows(
    const std::vector<std::vector<float>>& texts, size_t n) {
  std::vector<std::vector<std::vector<float>>> out;
  for (const std::vector<float>& text : texts) {
    out.emplace_back();
    for (auto at = text.begin(); at != text.end(); at += static_cast<std::ptrdiff_t>(n)) {
      out.back().emplace_back(at, at + static_cast<std::ptrdiff_t>(n));
    }
  }
  return out;
}

Status embed(const CommandLine& line, const EmbedFlags& flags) {
  std::vector<std::string> texts = flags.texts;
  if (texts.empty()) {
    CHIMERE_TRY(const std::string input, read_standard_input());
    texts = lines_of(input);
  }
  CHIMERE_TRY(auto file, open_model(line.settings, "", runtime::ShippedModel::kEmbedder));
  CHIMERE_TRY(
      const runtime::LoadedEmbedder loaded,
      runtime::load_embedder(std::move(file), line.settings, runtime::Runtime(line.settings)));
  engine::Embedder& embedder = *loaded.embedder;
  const bool by_token = loaded.loaded.model->pooling() == model::Pooling::kNone;
  if (flags.dimensions > embedder.dimensions()) {
    return invalid_argument(fmt::format("--dimensions {}: this model's vectors have {}.",
                                        flags.dimensions, embedder.dimensions()));
  }
  std::vector<std::vector<int32_t>> tokens;
  size_t n_tokens = 0;
  for (const std::string& text : texts) {
    tokens.push_back(embedder.encode(text));
    n_tokens += tokens.back().size();
  }
  CHIMERE_TRY(std::vector<std::vector<float>> vectors, embedder.embed(tokens));
  if (by_token) {
    auto rows = split_rows(vectors, static_cast<size_t>(embedder.dimensions()));
    for (auto& text : rows) {
      for (auto& vector : text) {
        if (flags.dimensions > 0) engine::shorten(vector, flags.dimensions);
      }
    }
    if (line.json) {
      print_json({{"embeddings", rows}, {"tokens", n_tokens}});
      return {};
    }
    vectors.clear();
    for (const auto& text : rows) vectors.insert(vectors.end(), text.begin(), text.end());
  } else if (flags.dimensions > 0) {
    for (std::vector<float>& vector : vectors) engine::shorten(vector, flags.dimensions);
  }
  if (line.json) {
    print_json({{"embeddings", vectors}, {"tokens", n_tokens}});
    return {};
  }
  for (const std::vector<float>& vector : vectors) {
    std::cout << fmt::format("{}\n", fmt::join(vector, " "));
  }
  return {};
}

}  // namespace

void declare_embed(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<EmbedFlags>();
  Command command = add_command(
      app, line, "embed",
      fmt::format(
          "Turns texts into vectors, which show how alike they are, with {} or another model (-m)",
          runtime::shipped_name(runtime::ShippedModel::kEmbedder)),
      [&line, flags] { return embed(line, *flags); });
  add_settings(command, line,
               {SettingGroup::kModelName, SettingGroup::kDevice, SettingGroup::kThreads,
                SettingGroup::kPooling, SettingGroup::kQuiet});
  command.option("TEXT", flags->texts, "Texts; without any, the lines of standard input");
  command
      .option("--dimensions", flags->dimensions,
              "Keep only this many elements of each vector, normalised to length 1")
      .range(int64_t{1}, int64_t{1} << 20);
}

}  // namespace chimere::app
