#include "quantize/quantize.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "base/mapped_file.h"
#include "gguf/format.h"
#include "gguf/metadata_bytes.h"
#include "gguf/writer.h"
#include "quant/quant.h"
#include "quantize/encode_tensor.h"
#include "quantize/resumable_file.h"

namespace chimere::quantize {
namespace {

constexpr uint32_t kQuantizationVersion = 2;
// Part of a journal's identity: raised when encoders or the layout change.
constexpr const char* kRevision = "chimere quantize 3";

// general.file_type of GGUF by the format that most weights have.
constexpr std::pair<DType, uint32_t> kFileTypes[] = {
    {DType::kF32, 0},      {DType::kF16, 1},     {DType::kQ4_0, 2},     {DType::kQ4_1, 3},
    {DType::kQ8_0, 7},     {DType::kQ5_0, 8},    {DType::kQ5_1, 9},     {DType::kQ2_K, 10},
    {DType::kQ3_K, 11},    {DType::kQ4_K, 14},   {DType::kQ5_K, 16},    {DType::kQ6_K, 18},
    {DType::kIQ2_XXS, 19}, {DType::kIQ2_XS, 20}, {DType::kIQ3_XXS, 23}, {DType::kIQ1_S, 24},
    {DType::kIQ4_NL, 25},  {DType::kIQ3_S, 26},  {DType::kIQ2_S, 28},   {DType::kIQ4_XS, 30},
    {DType::kIQ1_M, 31},   {DType::kBF16, 32},   {DType::kTQ1_0, 36},   {DType::kTQ2_0, 37},
    {DType::kMXFP4, 38},   {DType::kIQ2_K, 138}, {DType::kIQ3_K, 139},  {DType::kIQ4_K, 140},
    {DType::kIQ5_K, 141},
};

uint32_t file_type(const Plan& plan) {
  std::map<DType, int64_t> weights;
  for (const PlannedTensor& t : plan.tensors) {
    if (is_quantised_tensor(*t.source)) weights[t.type] += t.rows() * t.n_in();
  }
  const auto most = std::max_element(weights.begin(), weights.end(),
                                     [](auto& a, auto& b) { return a.second < b.second; });
  for (const auto& [type, number] : kFileTypes) {
    if (most != weights.end() && type == most->first) return number;
  }
  return 0;
}

bool copied_key(std::string_view key) {
  constexpr std::string_view kDropped[] = {"split.", "chimere.quantize.", "quantize.imatrix."};
  return key != gguf::kAlignmentKey &&
         std::ranges::none_of(kDropped, [&](auto prefix) { return key.starts_with(prefix); });
}

// Header, metadata with the decision log, and the entries of all tensors.
Result<gguf::Writer> describe_file(const gguf::Reader& file, const Plan& plan,
                                   const WriteOptions& options) {
  gguf::Writer out;
  CHIMERE_TRY(const auto values, gguf::metadata_bytes(file));
  for (const std::string& key : file.keys()) {
    if (copied_key(key)) out.set_encoded(key, values.at(key));
  }
  out.set_u32("general.quantization_version", kQuantizationVersion);
  out.set_u32("general.file_type", file_type(plan));
  if (options.importance != nullptr) {
    out.set_string("quantize.imatrix.file", options.importance_name);
    const auto& datasets = options.importance->datasets;
    out.set_string("quantize.imatrix.dataset", datasets.empty() ? "" : datasets.front());
    out.set_u32("quantize.imatrix.entries_count",
                static_cast<uint32_t>(options.importance->tensors.size()));
    out.set_u32("quantize.imatrix.chunks_count", options.importance->chunks);
  }
  out.set_string("chimere.quantize.settings", options.settings);
  std::vector<std::string> log;
  for (const PlannedTensor& t : plan.tensors) {
    log.push_back(t.source->name + " " + std::string(role_name(t.role)) + " " +
                  std::string(dtype_name(t.source->type)) + " " + std::string(dtype_name(t.type)) +
                  " " + t.reason);
    CHIMERE_CHECK_OK(out.add_tensor(t.source->name, t.source->dims, t.type, t.bytes(),
                                    [](std::span<uint8_t>) -> Status { return {}; }));
  }
  out.set_strings("chimere.quantize.log", log);
  return out;
}

Result<std::string> identity_of(const gguf::Reader& file, const WriteOptions& options) {
  std::string identity = kRevision;
  const auto add = [&](const FileIdentity& id) {
    for (const auto number : {static_cast<int64_t>(id.device), static_cast<int64_t>(id.inode),
                              id.size, id.modified_ns, id.changed_ns}) {
      identity += " " + std::to_string(number);
    }
  };
  for (const MappedFile& mapped : file.files()) {
    CHIMERE_TRY(const FileIdentity id, mapped.identity());
    add(id);
  }
  return identity + " importance " + options.importance_identity;
}

// The tensor's mean x², or nothing without an importance matrix.
Result<std::vector<float>> importance_of(const PlannedTensor& tensor, const WriteOptions& options,
                                         WriteReport& report) {
  const bool encoded = tensor.type != tensor.source->type && dtype_info(tensor.type).quantised;
  if (options.importance == nullptr || !encoded) return std::vector<float>{};
  CHIMERE_TRY(std::vector<float> weights,
              options.importance->weights(tensor.source->name, tensor.n_in(), tensor.matrices()));
  if (weights.empty()) ++report.without_importance;
  return weights;
}

class ModelWriter {
 public:
  ModelWriter(const gguf::Reader& file, const Plan& plan, const WriteOptions& options,
              ThreadPool& pool)
      : file_(file), plan_(plan), options_(options), pool_(pool) {
    progress_.tensors = plan.tensors.size();
    for (const PlannedTensor& t : plan.tensors) progress_.total += weights_of(t);
  }

  Status write_tensors(ResumableFile& out, int64_t head_bytes, uint32_t alignment) {
    int64_t offset = head_bytes;
    last_checkpoint_ = out.size();
    for (const PlannedTensor& tensor : plan_.tensors) {
      const auto padded = static_cast<int64_t>(gguf::align_up(tensor.bytes(), uint64_t{alignment}));
      progress_.name = tensor.source->name;
      const int64_t present = out.size() - offset;
      // Also of tensors that an earlier run wrote: the report counts those without importance.
      CHIMERE_TRY(const std::vector<float> importance, importance_of(tensor, options_, report));
      if (present >= padded) {
        progress_.done += weights_of(tensor);
        progress_.resumed = progress_.done;
      } else {
        CHIMERE_CHECK_OK(
            write_tensor(tensor, importance, std::max<int64_t>(0, present), offset, out));
        const std::vector<uint8_t> padding(
            static_cast<size_t>(padded - static_cast<int64_t>(tensor.bytes())));
        CHIMERE_CHECK_OK(out.write(padding));
      }
      offset += padded;
      ++progress_.tensor;
    }
    return file_.check_unchanged();
  }

  WriteReport report;

 private:
  static uint64_t weights_of(const PlannedTensor& t) {
    return static_cast<uint64_t>(t.rows()) * static_cast<uint64_t>(t.n_in());
  }

  // `present`: bytes of the tensor that an earlier run wrote, of which whole rows are used.
  Status write_tensor(const PlannedTensor& tensor, std::span<const float> importance,
                      int64_t present, int64_t offset, ResumableFile& out) {
    const int64_t row = row_bytes(tensor.type, tensor.n_in());
    const int64_t first = std::min(tensor.rows(), present / row);
    CHIMERE_CHECK_OK(out.cut(offset + first * row));
    const uint64_t before = progress_.done;
    const auto n_in = static_cast<uint64_t>(tensor.n_in());
    if (first > 0) progress_.resumed = before + static_cast<uint64_t>(first) * n_in;
    const auto take = [&](std::span<const uint8_t> bytes, int64_t rows_done) -> Status {
      // Numbers read from a file that changed meanwhile must not be journalled.
      CHIMERE_CHECK_OK(file_.check_unchanged());
      CHIMERE_CHECK_OK(out.write(bytes));
      progress_.done = before + static_cast<uint64_t>(rows_done) * n_in;
      if (options_.progress) options_.progress(progress_);
      const bool cancelled = options_.cancelled && options_.cancelled();
      if (cancelled ||
          out.size() - last_checkpoint_ >= static_cast<int64_t>(options_.checkpoint_bytes)) {
        CHIMERE_CHECK_OK(out.checkpoint());
        last_checkpoint_ = out.size();
      }
      if (cancelled) {
        return Error{Error::Code::kCancelled,
                     "Interrupted; the same command continues where this run stopped."};
      }
      return {};
    };
    CHIMERE_CHECK_OK(encode_tensor(file_, tensor, importance, first, pool_, take));
    progress_.done = before + weights_of(tensor);
    return {};
  }

  const gguf::Reader& file_;
  const Plan& plan_;
  const WriteOptions& options_;
  ThreadPool& pool_;
  WriteProgress progress_;
  int64_t last_checkpoint_ = 0;
};

}  // namespace

Result<std::string> file_identity(const std::string& path) {
  CHIMERE_TRY(const MappedFile file, MappedFile::open(path));
  CHIMERE_TRY(const FileIdentity id, file.identity());
  return std::to_string(id.device) + " " + std::to_string(id.inode) + " " +
         std::to_string(id.size) + " " + std::to_string(id.modified_ns) + " " +
         std::to_string(id.changed_ns);
}

Result<uint64_t> planned_file_bytes(const gguf::Reader& file, const Plan& plan,
                                    const WriteOptions& options) {
  CHIMERE_TRY(const gguf::Writer described, describe_file(file, plan, options));
  CHIMERE_TRY(const std::vector<uint8_t> head, described.head());
  uint64_t bytes = head.size();
  for (const PlannedTensor& t : plan.tensors) {
    bytes += gguf::align_up(t.bytes(), uint64_t{described.alignment()});
  }
  return bytes;
}

Result<WriteReport> write_model(const gguf::Reader& file, const Plan& plan,
                                const WriteOptions& options, ThreadPool& pool) {
  CHIMERE_TRY(const gguf::Writer described, describe_file(file, plan, options));
  CHIMERE_TRY(const std::vector<uint8_t> head, described.head());
  CHIMERE_TRY(const std::string identity, identity_of(file, options));
  CHIMERE_TRY(ResumableFile out, ResumableFile::open(options.output, head, identity));
  ModelWriter writer(file, plan, options, pool);
  writer.report.resumed = out.size() > static_cast<int64_t>(head.size());
  Status status =
      writer.write_tensors(out, static_cast<int64_t>(head.size()), described.alignment());
  if (status.ok()) status = out.publish();
  if (!status.ok()) {
    Error error = std::move(status).error();
    // Wrong inputs stay wrong; after anything else the next run can continue.
    const bool useless = error.code == Error::Code::kInvalidData;
    if (useless) out.discard();
    if (error.code == Error::Code::kOutOfSpace) {
      error.message += " Free some space and repeat the command: it continues where it stopped.";
    }
    return error;
  }
  writer.report.file_bytes = static_cast<uint64_t>(out.size());
  writer.report.tensor_bytes = plan.tensor_bytes();
  writer.report.bits = plan.mean_bits();
  return writer.report;
}

}  // namespace chimere::quantize
