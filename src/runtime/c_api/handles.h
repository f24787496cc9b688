// The objects behind the handles of <chimere/chimere.h>, and what its functions share.
#ifndef CHIMERE_RUNTIME_C_API_HANDLES_H_
#define CHIMERE_RUNTIME_C_API_HANDLES_H_

#include <chimere/chimere.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "runtime/loaded_embedder.h"
#include "runtime/runtime.h"
#include "runtime/sequence.h"
#include "runtime/text_model.h"

namespace chimere::c_api {

/// A loaded model: one of the two. Sequences share it with the handle.
struct Model {
  std::unique_ptr<runtime::TextModel> text;
  std::optional<runtime::LoadedEmbedder> embedder;
  std::mutex embedding;  ///< Embedder takes one call at a time

  const runtime::LoadedModel& loaded() const { return text ? text->loaded() : embedder->loaded; }
};

/// Stores the message for chimere_last_error().
chimere_status fail(chimere_status status, std::string_view message) noexcept;
chimere_status fail(const Error& error) noexcept;

/// Runs a function's body: its error becomes the status, and no exception crosses the border.
template <typename Body>
chimere_status guarded(const Body& body) noexcept {
  try {
    const Status status = body();
    return status.ok() ? CHIMERE_OK : fail(status.error());
  } catch (const std::bad_alloc&) {
    return fail(CHIMERE_OUT_OF_MEMORY, "The machine's memory is exhausted.");
  } catch (const std::exception& e) {
    return fail(CHIMERE_INTERNAL, e.what());
  } catch (...) {
    return fail(CHIMERE_INTERNAL, "Unknown exception.");
  }
}

/// The error for a missing argument.
inline Error missing(const char* argument) {
  return invalid_argument(std::string("The argument '") + argument + "' is NULL.");
}

/// The n elements at `values`. Errors: kInvalidArgument (NULL, but n > 0).
template <typename T>
Result<std::span<const T>> input(const T* values, size_t n, const char* argument) {
  if (values == nullptr && n > 0) return missing(argument);
  return std::span<const T>(values, n);
}

/// Copies `values` to the caller's array as chimere.h describes.
template <typename T>
chimere_status output(std::span<const T> values, T* to, size_t capacity, size_t* size) noexcept {
  *size = values.size();
  if (capacity == 0) return CHIMERE_OK;
  if (capacity < values.size()) {
    return fail(CHIMERE_BUFFER_TOO_SMALL, "The array has " + std::to_string(capacity) +
                                              " elements, and " + std::to_string(values.size()) +
                                              " are needed.");
  }
  std::copy(values.begin(), values.end(), to);
  return CHIMERE_OK;
}

/// Copies a struct with struct_size to a caller whose struct may be shorter. Errors:
/// kInvalidArgument (struct_size is not set).
template <typename T>
Status output_struct(T value, T* to) {
  const size_t size = to->struct_size;
  if (size < sizeof(size_t)) {
    return invalid_argument("The field struct_size is not set to the size of the struct.");
  }
  value.struct_size = std::min(size, sizeof(T));
  std::memcpy(to, &value, value.struct_size);
  return {};
}

/// Whether a setting has an effect in a call.
using SettingApplies = bool (*)(const SettingInfo&);
/// In chimere_model_load(): those of the model and the defaults of its generations.
bool applies_to_model(const SettingInfo& setting);
/// In calls that generate or render a prompt.
bool applies_to_generation(const SettingInfo& setting);

/// Sets `out` from options; those named in `own` are returned instead, in order. Errors:
/// kInvalidArgument (a NULL name or value, an invalid value, a setting that does not apply),
/// kNotFound (no such setting).
Result<std::vector<std::pair<std::string, std::string>>> apply_options(
    const chimere_option* options, size_t n_options, std::span<const std::string_view> own,
    SettingApplies applies, Settings& out);

/// The model behind a handle, if it generates text. Errors: kInvalidArgument, kUnsupported.
Result<runtime::TextModel*> text_model(const chimere_model* model);

}  // namespace chimere::c_api

struct chimere_runtime {
  chimere::runtime::Runtime runtime;
};

struct chimere_model {
  std::shared_ptr<chimere::c_api::Model> model;
};

struct chimere_sequence {
  std::shared_ptr<chimere::c_api::Model> model;
  chimere::runtime::Sequence sequence;
  std::atomic<bool> busy{false};
};

#endif  // CHIMERE_RUNTIME_C_API_HANDLES_H_
