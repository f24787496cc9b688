// chimere quantize: a model's weights in other formats.
#include "quantize/quantize.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/byte_amount.h"
#include "base/stopwatch.h"
#include "base/thread_pool.h"
#include "command.h"
#include "interrupt.h"
#include "json.h"
#include "loading.h"
#include "progress_line.h"
#include "quant/quant.h"
#include "quantize/importance.h"
#include "quantize/plan.h"
#include "quantize/plan_budget.h"

namespace chimere::app {
namespace {

/// "" if the text is an amount of bytes.
std::string byte_amount(const std::string& text) {
  const auto bytes = parse_byte_amount(text);
  return bytes.ok() ? "" : bytes.error().message;
}

struct QuantizeFlags {
  std::string model;
  std::string output;
  std::string type;
  double bpw = 0;
  std::string size;
  std::string fits;
  std::string imatrix;
  std::string calibrate;
  bool data_free = false;
  std::vector<std::string> keep;
  std::vector<std::string> floors;
  std::vector<std::string> tensor_types;
};

std::vector<std::string> output_types() {
  constexpr uint32_t kTypeNumbers = 256;
  std::vector<std::string> names;
  for (uint32_t i = 0; i < kTypeNumbers; ++i) {
    const DTypeInfo* info = find_dtype(i);
    if (info != nullptr && quant::can_encode(info->type)) names.emplace_back(info->name);
  }
  return names;
}

/// "" if the text names a format that can be written.
std::string check_type(const std::string& text) {
  const auto type = parse_dtype(text);
  if (type && quant::can_encode(*type)) return "";
  return fmt::format("'{}' is not a format that can be written; choose one of {}", text,
                     fmt::join(output_types(), ", "));
}

/// ROLE=TYPE.
std::string check_floor(const std::string& text) {
  const size_t equals = text.find('=');
  const std::string role = text.substr(0, equals);
  if (equals == std::string::npos || !quantize::parse_role(role)) {
    return fmt::format("'{}' is not ROLE=TYPE with a role of {}", text,
                       fmt::join(quantize::role_names(), ", "));
  }
  return check_type(text.substr(equals + 1));
}

/// PATTERN=TYPE.
std::string check_tensor_type(const std::string& text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string::npos || equals == 0) {
    return fmt::format("'{}' is not PATTERN=TYPE, as in 'blk.*.attn_v.weight=q6_K'", text);
  }
  return check_type(text.substr(equals + 1));
}

quantize::Rules rules_of(const QuantizeFlags& flags) {
  quantize::Rules rules;
  rules.keep = flags.keep;
  for (const std::string& floor : flags.floors) {
    const size_t equals = floor.find('=');
    rules.floors.emplace_back(*quantize::parse_role(floor.substr(0, equals)),
                              *parse_dtype(floor.substr(equals + 1)));
  }
  for (const std::string& rule : flags.tensor_types) {
    const size_t equals = rule.rfind('=');
    rules.types.emplace_back(rule.substr(0, equals), *parse_dtype(rule.substr(equals + 1)));
  }
  return rules;
}

std::string settings_text(const QuantizeFlags& flags) {
  std::string text;
  if (!flags.type.empty()) text = "--type " + std::string(dtype_name(*parse_dtype(flags.type)));
  if (flags.bpw > 0) text = fmt::format("--bpw {}", flags.bpw);
  if (!flags.size.empty()) text = "--size " + flags.size;
  if (!flags.fits.empty()) text = "--fits '" + flags.fits + "'";
  if (flags.data_free) text += " --data-free";
  if (!flags.calibrate.empty()) text += " --calibrate";
  for (const std::string& keep : flags.keep) text += " --keep " + keep;
  for (const std::string& floor : flags.floors) text += " --floor " + floor;
  for (const std::string& rule : flags.tensor_types) text += " --tensor-type " + rule;
  return text;
}

/// Weights that lost precision before: a second rounding adds to the error of the first.
void warn_of_rounded_source(const gguf::Reader& file) {
  for (const gguf::TensorInfo& tensor : file.tensors()) {
    if (!dtype_info(tensor.type).quantised) continue;
    std::cerr << fmt::format(
        "The weights of {} were rounded before ({} in {}); quantise the original for better "
        "results.\n",
        file.path(), tensor.name, dtype_name(tensor.type));
    return;
  }
}

std::string duration(double seconds) {
  const int64_t s = std::llround(seconds);
  return s < 60 ? fmt::format("{} s", s) : fmt::format("{} min {:02} s", s / 60, s % 60);
}

/// "16GB, 64k context": bytes of memory, then tokens.
struct MemoryTarget {
  int64_t bytes = 0;
  int64_t context = 0;
};
Result<MemoryTarget> parse_fits(const std::string& text) {
  const Error wrong = invalid_argument(
      fmt::format("--fits '{}' must be an amount of memory and a context, as in \"16GB, 64k "
                  "context\".",
                  text));
  const size_t comma = text.find(',');
  if (comma == std::string::npos) return wrong;
  const auto bytes = parse_byte_amount(text.substr(0, comma));
  size_t at = text.find_first_not_of(' ', comma + 1);
  int64_t tokens = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9' && tokens < 1'000'000'000) {
    tokens = 10 * tokens + (text[at++] - '0');
  }
  if (at < text.size() && text[at] == 'k') {
    tokens *= 1024;
    ++at;
  }
  const std::string rest = at < text.size() ? text.substr(at) : "";
  if (!bytes.ok() || tokens < 1 || (!rest.empty() && rest != " context")) return wrong;
  return MemoryTarget{*bytes, tokens};
}

/// What keys, values, states and activations take beside the weights, for one sequence.
Result<uint64_t> memory_beside_weights(const gguf::Reader& file, int64_t context,
                                       const CommandLine& line) {
  CHIMERE_TRY(auto again, gguf::Reader::open(file.path()));
  runtime::MemoryRequest request;
  request.on_gpu = false;
  request.default_context = context;
  CHIMERE_TRY(const runtime::LoadedModel loaded, load(std::move(again), line.settings, request));
  if (context > loaded.trained_context) {
    return invalid_argument(fmt::format("--fits: this model was trained for {} tokens, not {}.",
                                        loaded.trained_context, context));
  }
  const state::StateStore& states = loaded.model->states();
  constexpr int64_t kSlots = 2;  // the current state and the one that a step writes
  return static_cast<uint64_t>(context * states.bytes_per_token() +
                               kSlots * states.bytes_per_slot() +
                               loaded.model->step_bytes(loaded.step_rows, 1));
}

/// The plan of least loss within --bpw, --size or --fits.
Result<quantize::Plan> plan_for_budget(const gguf::Reader& file, const CommandLine& line,
                                       const QuantizeFlags& flags,
                                       const quantize::WriteOptions& write) {
  if (flags.imatrix.empty() && flags.calibrate.empty() && !flags.data_free) {
    return invalid_argument(
        "Formats are chosen by what their errors cost the model: give an importance matrix "
        "(--imatrix, made by `chimere imatrix`), a text to measure on (--calibrate), or say "
        "--data-free to judge by the weights alone.");
  }
  quantize::LossOptions losses;
  losses.rules = rules_of(flags);
  losses.importance = write.importance;
  losses.cancelled = write.cancelled;
  if (!flags.calibrate.empty()) {
    CHIMERE_TRY(losses.calibration, read_file(flags.calibrate));
  }
  uint64_t beside = 0;
  int64_t limit = 0;
  if (!flags.fits.empty()) {
    CHIMERE_TRY(const MemoryTarget target, parse_fits(flags.fits));
    CHIMERE_TRY(beside, memory_beside_weights(file, target.context, line));
    limit = target.bytes;
    if (beside >= static_cast<uint64_t>(limit)) {
      return invalid_argument(fmt::format(
          "--fits: a context of {} tokens alone takes {}; allow more memory, or a shorter context.",
          target.context, human_bytes(static_cast<double>(beside))));
    }
  }
  const runtime::Runtime runtime(line.settings);
  quantize::LossTable table;
  {
    ProgressLine progress(line.settings);
    losses.progress = [&](std::string_view what, size_t done, size_t count) {
      progress.show(fmt::format("measuring {}: {} of {} tensors   ", what, done, count));
    };
    CHIMERE_TRY(table, quantize::measure_losses(file, losses, line.settings, runtime));
  }
  if (flags.bpw > 0) {
    return quantize::plan_within(table, quantize::tensor_bytes_at(table, flags.bpw));
  }
  if (!flags.size.empty()) {
    CHIMERE_TRY(limit, parse_byte_amount(flags.size));
  }
  // The decision log and padding depend on the plan: lower the budget until the file fits.
  const uint64_t most = static_cast<uint64_t>(limit) - beside;
  uint64_t budget = most;
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    CHIMERE_TRY(quantize::Plan plan, quantize::plan_within(table, budget));
    uint64_t bytes = plan.tensor_bytes();
    if (beside == 0) {
      CHIMERE_TRY(bytes, quantize::planned_file_bytes(file, plan, write));
    }
    if (bytes <= most) return plan;
    const uint64_t excess = bytes - most;
    if (excess >= plan.tensor_bytes()) break;
    budget = plan.tensor_bytes() - excess;
  }
  return invalid_argument(fmt::format("A file of {} has no room for this model's metadata.",
                                      human_bytes(static_cast<double>(most))));
}

Status quantize_model(const CommandLine& line, const QuantizeFlags& flags) {
  CHIMERE_TRY(const auto file, open_model(line.settings, flags.model));
  std::error_code ignored;
  if (std::filesystem::equivalent(flags.output, file->path(), ignored)) {
    return invalid_argument("The output would replace the model that is read; name another file.");
  }
  if ((flags.type.empty() ? 0 : 1) + (flags.bpw > 0 ? 1 : 0) + (flags.size.empty() ? 0 : 1) +
          (flags.fits.empty() ? 0 : 1) !=
      1) {
    return invalid_argument(
        "Say how large the result shall be, in one of these ways: --type, --bpw, --size, --fits.");
  }
  if (!flags.type.empty() && (flags.data_free || !flags.calibrate.empty())) {
    return invalid_argument(
        "--data-free and --calibrate belong to --bpw, --size and --fits; --type leaves no choice.");
  }
  quantize::WriteOptions options;
  options.output = flags.output;
  options.settings = settings_text(flags);
  std::optional<quantize::ImportanceMatrix> importance;
  if (!flags.imatrix.empty()) {
    CHIMERE_TRY(importance, quantize::load_importance(flags.imatrix));
    CHIMERE_TRY(options.importance_identity, quantize::file_identity(flags.imatrix));
    options.importance = &*importance;
    options.importance_name = std::filesystem::path(flags.imatrix).filename().string();
  }
  const InterruptScope interrupt;
  options.cancelled = [&] { return interrupt.interrupted(); };
  Result<quantize::Plan> plan =
      flags.type.empty() ? plan_for_budget(*file, line, flags, options)
                         : quantize::plan_uniform(*file, *parse_dtype(flags.type), rules_of(flags));
  if (!plan.ok()) return std::move(plan).error();
  if (!line.settings.get(settings::kQuiet)) warn_of_rounded_source(*file);
  const int64_t threads = line.settings.get(settings::kThreads);
  ThreadPool pool(threads > 0 ? static_cast<int>(threads) : available_cpus());
  Result<quantize::WriteReport> report = quantize::WriteReport{};
  {
    ProgressLine progress(line.settings);
    const Stopwatch clock;
    options.progress = [&](const quantize::WriteProgress& p) {
      const auto done = static_cast<double>(p.done - p.resumed);
      const auto left = static_cast<double>(p.total - p.done);
      progress.show(fmt::format("{:5} of {}  {:5.1f} %  {} left  {:40}", p.tensor + 1, p.tensors,
                                100.0 * static_cast<double>(p.done) / static_cast<double>(p.total),
                                done > 0 ? duration(clock.seconds() * left / done) : "?", p.name));
    };
    report = quantize::write_model(*file, *plan, options, pool);
  }
  if (!report.ok()) return std::move(report).error();
  if (line.json) {
    Json tensors = Json::array();
    for (const quantize::PlannedTensor& t : plan->tensors) {
      tensors.push_back({{"name", t.source->name},
                         {"role", quantize::role_name(t.role)},
                         {"from", dtype_name(t.source->type)},
                         {"type", dtype_name(t.type)},
                         {"bytes", t.bytes()},
                         {"reason", t.reason}});
    }
    print_json({{"path", flags.output},
                {"file_bytes", report->file_bytes},
                {"tensor_bytes", report->tensor_bytes},
                {"bits_per_weight", report->bits},
                {"resumed", report->resumed},
                {"without_importance", report->without_importance},
                {"tensors", tensors}});
    return {};
  }
  std::cout << fmt::format("{}: {}, {:.3f} bits a weight\n", flags.output,
                           human_bytes(static_cast<double>(report->file_bytes)), report->bits);
  if (report->without_importance > 0) {
    std::cerr << fmt::format(
        "{} tensors are not in the importance matrix; all their weights "
        "counted alike.\n",
        report->without_importance);
  }
  return {};
}

}  // namespace

void declare_quantize(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<QuantizeFlags>();
  Command command = add_command(app, line, "quantize",
                                "Makes a model smaller: its weights in formats of fewer bits",
                                [&line, flags] { return quantize_model(line, *flags); });
  command.option("MODEL", flags->model, "The model: a GGUF file, or a name in the model folder")
      .required()
      .check(not_empty(kNameModel));
  command
      .option("-o,--output", flags->output,
              "The GGUF file; appears when it is complete. An interrupted run continues")
      .required()
      .check(not_empty("name the file to write"));
  command.option("--type", flags->type, "Format of all weight matrices, such as q4_K")
      .check(check_type);
  command
      .option("--bpw", flags->bpw,
              "Choose a format for each tensor, so that weight matrices have this many bits a "
              "weight on average")
      .range(1.0, 16.0);
  command
      .option("--size", flags->size,
              "Choose formats so that the file has at most this size: 15.2GiB")
      .check(byte_amount);
  command
      .option("--fits", flags->fits,
              "Choose formats so that weights, keys and values, states and buffers fit in memory: "
              "\"16GB, 64k context\"")
      .check([](const std::string& text) {
        const auto target = parse_fits(text);
        return target.ok() ? std::string() : target.error().message;
      });
  Option imatrix =
      command.option("--imatrix", flags->imatrix,
                     "Importance matrix, of `chimere imatrix` or llama-imatrix (GGUF)");
  imatrix.check(not_empty("name the file of the importance matrix"));
  Option calibrate = command.option("--calibrate", flags->calibrate,
                                    "Measure what the error of each tensor costs on this text; "
                                    "slow, best");
  calibrate.check(not_empty("name the file of the text"));
  command
      .flag("--data-free", flags->data_free,
            "With --bpw, --size and --fits: judge formats by the weights alone")
      .excludes(imatrix)
      .excludes(calibrate);
  command
      .option("--keep", flags->keep,
              "Copy tensors of these names unchanged; * and ? stand for any characters")
      .one_value()
      .repeatable();
  command
      .option(
          "--floor", flags->floors,
          fmt::format("ROLE=TYPE: tensors of this role have at least the bits of TYPE. Roles: {}",
                      fmt::join(quantize::role_names(), ", ")))
      .one_value()
      .repeatable()
      .check(check_floor);
  command
      .option("--tensor-type", flags->tensor_types,
              "PATTERN=TYPE: tensors of these names have this format; comes before --floor, behind "
              "--keep; of several patterns the first that matches counts")
      .one_value()
      .repeatable()
      .check(check_tensor_type);
  add_settings(command, line,
               {SettingGroup::kModelFolder, SettingGroup::kThreads, SettingGroup::kQuiet});
}

}  // namespace chimere::app
