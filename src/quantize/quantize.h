// Writes a model again with other weight formats.
#ifndef CHIMERE_QUANTIZE_QUANTIZE_H_
#define CHIMERE_QUANTIZE_QUANTIZE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/thread_pool.h"
#include "gguf/reader.h"
#include "quantize/importance.h"
#include "quantize/plan.h"

namespace chimere::quantize {

struct WriteProgress {
  size_t tensor = 0;  ///< number of the tensor, from 0
  size_t tensors = 0;
  std::string_view name;
  uint64_t done = 0;  ///< weights that were encoded or copied, of `total`
  uint64_t total = 0;
  uint64_t resumed = 0;  ///< of `done`, those of an earlier run
};

struct WriteOptions {
  std::string output;
  std::string settings;  ///< one line for the decision log: what the user asked for
  const ImportanceMatrix* importance = nullptr;
  std::string importance_name;                     ///< of the file, without its folder
  std::string importance_identity;                 ///< changes when the file does
  uint64_t checkpoint_bytes = uint64_t{64} << 20;  ///< written between two checkpoints
  std::function<void(const WriteProgress&)> progress;
  std::function<bool()> cancelled;  ///< asked often
};

struct WriteReport {
  uint64_t file_bytes = 0;
  uint64_t tensor_bytes = 0;
  double bits = 0;                ///< Plan::mean_bits()
  size_t without_importance = 0;  ///< quantised tensors that the importance matrix lacks
  bool resumed = false;
};

/// Writes the plan's file: the source's metadata, the decision log and the tensors, in order. The
/// file appears when it is complete; an interrupted run leaves OUTPUT.partial, and the next run
/// with the same inputs continues it. Its bytes depend on the inputs only. Memory: a few MiB for
/// each thread, and the importance of one tensor. Errors: kInvalidData (damaged numbers, an
/// importance matrix of another model), kCancelled, kOutOfSpace, kIo, kInvalidArgument.
Result<WriteReport> write_model(const gguf::Reader& file, const Plan& plan,
                                const WriteOptions& options, ThreadPool& pool);

/// Bytes of the file that write_model() would write. Errors: those that need no disk.
Result<uint64_t> planned_file_bytes(const gguf::Reader& file, const Plan& plan,
                                    const WriteOptions& options);

/// What identifies the bytes of a file for a resumed run. Errors: kIo, kNotFound.
Result<std::string> file_identity(const std::string& path);

}  // namespace chimere::quantize

#endif  // CHIMERE_QUANTIZE_QUANTIZE_H_
