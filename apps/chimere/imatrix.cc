// chimere imatrix: how large the inputs of each weight matrix are, for `chimere quantize`.
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "base/stopwatch.h"
#include "command.h"
#include "json.h"
#include "loading.h"
#include "progress_line.h"
#include "quantize/importance.h"
#include "quantize/input_collector.h"
#include "quantize/observing_ops.h"

namespace chimere::app {
namespace {

struct ImatrixFlags {
  std::string model;
  std::string text;
  std::string output;
  int64_t window = 512;
};

Status measure_inputs(const CommandLine& line, const ImatrixFlags& flags) {
  CHIMERE_TRY(auto file, open_model(line.settings, flags.model));
  const auto collector = std::make_shared<quantize::InputCollector>(*file);
  runtime::MemoryRequest request;
  request.default_context = flags.window;
  request.on_gpu = false;
  request.wrap_ops = [collector](std::unique_ptr<kernels::Ops> ops) {
    return quantize::make_observing_ops(
        std::move(ops),
        [collector](const void* weights, ConstMatrixView x) { collector->observe(weights, x); });
  };
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(std::move(file), line.settings, request));
  CHIMERE_TRY(const runtime::TokenText text, read_tokens(loaded, flags.text));
  const auto windows = static_cast<int64_t>(text.tokens.size()) / flags.window;
  {
    ProgressLine progress(line.settings);
    const Stopwatch clock;
    CHIMERE_CHECK_OK(quantize::run_windows(loaded, text.tokens, flags.window, [&](int64_t done) {
      const double left = static_cast<double>(windows * flags.window - done);
      progress.show(fmt::format("{} of {} tokens, {:.0f} s left   ", done, windows * flags.window,
                                clock.seconds() / static_cast<double>(done) * left));
    }));
  }
  quantize::ImportanceMatrix importance = collector->importance();
  importance.datasets = {std::filesystem::path(flags.text).filename().string()};
  importance.chunks = static_cast<uint32_t>(windows);
  importance.chunk_size = static_cast<uint32_t>(flags.window);
  CHIMERE_CHECK_OK(quantize::save_importance(importance, flags.output));
  size_t idle = 0;
  for (const auto& entry : importance.tensors) {
    for (const float count : entry.second.counts) idle += count == 0 ? 1 : 0;
  }
  if (line.json) {
    print_json({{"path", flags.output},
                {"tensors", importance.tensors.size()},
                {"tokens", windows * flags.window},
                {"matrices_without_samples", idle}});
    return {};
  }
  std::cout << fmt::format("{}: inputs of {} tensors over {} tokens\n", flags.output,
                           importance.tensors.size(), windows * flags.window);
  if (idle > 0) {
    std::cerr << fmt::format(
        "{} matrices of experts had no input; they will share the statistics of the others.\n",
        idle);
  }
  return {};
}

}  // namespace

void declare_imatrix(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<ImatrixFlags>();
  Command command =
      add_command(app, line, "imatrix", "Measures which weights matter on a text, for quantize",
                  [&line, flags] { return measure_inputs(line, *flags); });
  command.option("MODEL", flags->model, "The model: a GGUF file, or a name in the model folder")
      .required()
      .check(not_empty(kNameModel));
  command.option("-f,--file", flags->text, "The text; - for standard input").required();
  command
      .option("-o,--output", flags->output,
              "The importance matrix: a GGUF file that `chimere quantize` and llama-quantize read")
      .required()
      .check(not_empty("name the file to write"));
  command
      .option("--window", flags->window, "Tokens of a sequence; the text is cut into such windows")
      .range(16, 1 << 20)
      .show_default();
  add_settings(command, line,
               {SettingGroup::kModelFolder, SettingGroup::kThreads, SettingGroup::kQuiet});
}

}  // namespace chimere::app
