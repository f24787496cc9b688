// chimere convert: a model folder of transformers becomes a GGUF file.
#include "convert/convert.h"

#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>

#include "base/byte_amount.h"
#include "command.h"
#include "json.h"
#include "progress_line.h"
#include "tensor/dtype.h"

namespace chimere::app {
namespace {

struct ConvertFlags {
  std::string folder;
  std::string output;
  std::string type;
  std::string base;
  bool without_tokenizer = false;
};

Status convert_folder(const CommandLine& line, const ConvertFlags& flags) {
  convert::Options options;
  options.folder = flags.folder;
  options.output = flags.output;
  options.base = flags.base;
  options.tokenizer = !flags.without_tokenizer;
  if (!flags.type.empty()) options.type = convert::parse_output_type(flags.type);
  Result<convert::Report> report = convert::Report{};
  {
    ProgressLine progress(line.settings);
    options.progress = [&](size_t number, size_t count, std::string_view name) {
      progress.show(fmt::format("{:5} of {}  {:40}", number + 1, count, name));
    };
    report = convert::is_adapter_folder(options.folder) ? convert::convert_adapter(options)
                                                        : convert::convert_model(options);
  }
  if (!report.ok()) return std::move(report).error();
  if (line.json) {
    print_json({{"path", flags.output},
                {"architecture", report->architecture},
                {"type", dtype_name(report->type)},
                {"tensors", report->tensors},
                {"tensor_bytes", report->tensor_bytes},
                {"left_out", report->dropped}});
    return {};
  }
  std::cout << fmt::format(
      "{} is a {} of {} tensors, {} in {}\n", flags.output, report->architecture, report->tensors,
      human_bytes(static_cast<double>(report->tensor_bytes)), dtype_name(report->type));
  if (!report->dropped.empty()) {
    std::cerr << fmt::format("{} tensors that the file cannot use were left out, {} among them\n",
                             report->dropped.size(), report->dropped.front());
  }
  return {};
}

}  // namespace

void declare_convert(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<ConvertFlags>();
  Command command =
      add_command(app, line, "convert",
                  "Makes a GGUF file of a model in the format of Hugging Face transformers",
                  [&line, flags] { return convert_folder(line, *flags); });
  command
      .option("FOLDER", flags->folder,
              "A folder with config.json, safetensors files and tokenizer.json or tokenizer.model, "
              "or a LoRA adapter of PEFT (adapter_config.json, adapter_model.safetensors)")
      .required()
      .check(not_empty("name the folder of the model"));
  command.option("-o,--output", flags->output, "The GGUF file; appears when it is complete")
      .required()
      .check(not_empty("name the file to write"));
  command.option("--base", flags->base,
                 "Of an adapter: the folder of its base model; default: the one it names");
  command
      .option("--type", flags->type,
              "Of the matrices; default: bf16 if they are stored so, else f16")
      .one_of({"f32", "f16", "bf16", "q8_0"});
  command.flag("--without-tokenizer", flags->without_tokenizer,
               "Write no vocabulary: such a file takes token ids only");
  add_settings(command, line, {SettingGroup::kQuiet});
}

}  // namespace chimere::app
