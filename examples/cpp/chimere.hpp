// The C interface of libchimere with C++ lifetimes, strings and exceptions. Copy it into a program;
// it uses nothing but <chimere/chimere.h>.
#ifndef CHIMERE_EXAMPLES_CHIMERE_HPP_
#define CHIMERE_EXAMPLES_CHIMERE_HPP_

#include <chimere/chimere.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace chimere_cpp {

struct Error : std::runtime_error {
  explicit Error(chimere_status s) : std::runtime_error(chimere_last_error()), status(s) {}
  chimere_status status;
};

inline void check(chimere_status status) {
  if (status != CHIMERE_OK) throw Error(status);
}

using Options = std::vector<std::pair<std::string, std::string>>;

/// The options as the C interface takes them; they must outlive the result.
inline std::vector<chimere_option> views(const Options& options) {
  std::vector<chimere_option> out;
  for (const auto& [name, value] : options) out.push_back({name.c_str(), value.c_str()});
  return out;
}

/// Asks for the size, then for the values.
template <typename T, typename Call>
std::vector<T> fill(const Call& call) {
  size_t size = 0;
  check(call(nullptr, 0, &size));
  std::vector<T> out(size);
  check(call(out.data(), out.size(), &size));
  return out;
}

template <typename T, void (*Free)(T*)>
struct Deleter {
  void operator()(T* handle) const { Free(handle); }
};
template <typename T, void (*Free)(T*)>
using Handle = std::unique_ptr<T, Deleter<T, Free>>;

class Runtime {
 public:
  explicit Runtime(const Options& options = {}) {
    chimere_runtime* out = nullptr;
    const auto v = views(options);
    check(chimere_runtime_create(v.data(), v.size(), &out));
    handle_.reset(out);
  }
  chimere_runtime* get() const { return handle_.get(); }

 private:
  Handle<chimere_runtime, chimere_runtime_free> handle_;
};

class Model {
 public:
  Model(const Runtime& runtime, const std::string& name, const Options& options = {}) {
    chimere_model* out = nullptr;
    const auto v = views(options);
    check(chimere_model_load(runtime.get(), name.empty() ? nullptr : name.c_str(), v.data(),
                             v.size(), nullptr, nullptr, &out));
    handle_.reset(out);
  }

  std::vector<int32_t> tokenize(std::string_view text) const {
    return fill<int32_t>([&](int32_t* to, size_t capacity, size_t* size) {
      return chimere_tokenize(get(), text.data(), text.size(), CHIMERE_TOKENIZE_BOS, to, capacity,
                              size);
    });
  }
  std::string detokenize(const std::vector<int32_t>& tokens) const {
    const auto bytes = fill<char>([&](char* to, size_t capacity, size_t* size) {
      return chimere_detokenize(get(), tokens.data(), tokens.size(), 0, to, capacity, size);
    });
    return {bytes.begin(), bytes.end()};
  }
  /// `messages`: pairs of role and content.
  std::vector<int32_t> chat(
      const std::vector<std::pair<std::string, std::string>>& messages) const {
    std::vector<chimere_message> v;
    for (const auto& [role, content] : messages) v.push_back({role.c_str(), content.c_str()});
    return fill<int32_t>([&](int32_t* to, size_t capacity, size_t* size) {
      return chimere_apply_chat_template(get(), v.data(), v.size(), nullptr, 0, to, capacity, size);
    });
  }
  std::vector<float> log_probabilities(const std::vector<int32_t>& tokens) const {
    std::vector<float> out(tokens.size());
    check(chimere_log_probabilities(get(), tokens.data(), tokens.size(), out.data()));
    return out;
  }
  std::vector<float> embed(std::string_view text) const {
    return fill<float>([&](float* to, size_t capacity, size_t* size) {
      return chimere_embed(get(), text.data(), text.size(), to, capacity, size);
    });
  }
  chimere_model* get() const { return handle_.get(); }

 private:
  Handle<chimere_model, chimere_model_free> handle_;
};

class Sequence {
 public:
  using OnText = std::function<bool(std::string_view text)>;  ///< false ends the generation

  Sequence(const Model& model, const std::vector<int32_t>& prompt) {
    chimere_sequence* out = nullptr;
    check(chimere_sequence_create(model.get(), prompt.data(), prompt.size(), &out));
    handle_.reset(out);
  }
  /// Restores a saved sequence.
  Sequence(const Model& model, const std::vector<unsigned char>& saved) {
    chimere_sequence* out = nullptr;
    check(chimere_sequence_restore(model.get(), saved.data(), saved.size(), &out));
    handle_.reset(out);
  }

  chimere_generation generate(const Options& options, const OnText& on_text = {}) {
    chimere_generation result = {};
    result.struct_size = sizeof(result);
    const auto v = views(options);
    const auto call = [](void* user_data, const chimere_token* token) {
      const OnText& use = *static_cast<const OnText*>(user_data);
      return use && !use({token->text, token->text_size}) ? 1 : 0;
    };
    void* const user_data = const_cast<OnText*>(&on_text);
    check(chimere_generate(handle_.get(), v.data(), v.size(), call, user_data, &result));
    return result;
  }
  std::vector<int32_t> tokens() const {
    return fill<int32_t>([&](int32_t* to, size_t capacity, size_t* size) {
      return chimere_sequence_get_tokens(handle_.get(), to, capacity, size, nullptr);
    });
  }
  std::vector<unsigned char> save() const {
    return fill<unsigned char>([&](unsigned char* to, size_t capacity, size_t* size) {
      return chimere_sequence_save(handle_.get(), to, capacity, size);
    });
  }

 private:
  Handle<chimere_sequence, chimere_sequence_free> handle_;
};

}  // namespace chimere_cpp

#endif  // CHIMERE_EXAMPLES_CHIMERE_HPP_
