// Runtimes, models, tokens and embeddings of <chimere/chimere.h>.
#include <charconv>

#include "base/byte_amount.h"
#include "runtime/c_api/handles.h"
#include "runtime/model_path.h"

namespace chimere::c_api {
namespace {

Result<int> number(const std::string& name, const std::string& text, int max) {
  int out = 0;
  const char* const end = text.data() + text.size();
  const auto [last, error] = std::from_chars(text.data(), end, out);
  if (error == std::errc() && last == end && out >= 0 && out <= max) return out;
  return invalid_argument("The option " + name + " is a number from 0 to " + std::to_string(max) +
                          ", not '" + text + "'.");
}

Status create_runtime(const chimere_option* options, size_t n_options, chimere_runtime** out) {
  if (out == nullptr) return missing("runtime");
  constexpr std::string_view kOwn[] = {"threads", "gpu", "state-memory"};
  const auto max_threads = static_cast<int>(settings::kThreads.max);
  constexpr int kMaxGpu = 255;
  Settings ignored;
  CHIMERE_TRY(const auto given,
              apply_options(
                  options, n_options, kOwn, [](const SettingInfo&) { return false; }, ignored));
  if (given.size() != n_options) {
    return invalid_argument(
        "A runtime has the options threads, gpu and state-memory; give the others to "
        "chimere_model_load().");
  }
  runtime::Runtime::Options wanted;
  for (const auto& [name, value] : given) {
    if (name == "threads") {
      CHIMERE_TRY(wanted.threads, number(name, value, max_threads));
    } else if (name == "gpu") {
      CHIMERE_TRY(wanted.gpu, number(name, value, kMaxGpu));
    } else {
      CHIMERE_TRY(wanted.state_bytes, parse_byte_amount(value));
    }
  }
  *out = new chimere_runtime{runtime::Runtime(wanted)};
  return {};
}

Status load_model(const chimere_runtime* runtime, const char* name, const chimere_option* options,
                  size_t n_options, chimere_log_callback log, void* user_data,
                  chimere_model** out) {
  if (runtime == nullptr) return missing("runtime");
  if (out == nullptr) return missing("model");
  Settings settings;
  if (auto done = settings.set(settings::kCacheDisk, "0", "libchimere"); !done.ok())
    return std::move(done).error();
  CHIMERE_TRY([[maybe_unused]] const auto own,
              apply_options(options, n_options, {}, applies_to_model, settings));
  runtime::LoadObserver observer;
  if (log != nullptr) {
    observer.notice = [=](const std::string& text) {
      log(user_data, CHIMERE_LOG_NOTICE, text.c_str());
    };
    observer.warning = [=](const std::string& text) {
      log(user_data, CHIMERE_LOG_WARNING, text.c_str());
    };
  }
  const std::string wanted = name != nullptr ? name : settings.get(settings::kModel);
  if (name != nullptr && wanted.empty()) return invalid_argument("The model's name is empty.");
  CHIMERE_TRY(const runtime::ModelPath found, runtime::find_model(wanted, settings));
  CHIMERE_TRY(auto file, gguf::Reader::open(found.path));
  auto model = std::make_shared<Model>();
  CHIMERE_TRY(const std::string architecture, file->get_string("general.architecture"));
  const auto pooling = file->get_int(architecture + ".pooling_type");
  if (pooling.ok() && *pooling > 0) {
    CHIMERE_TRY(model->embedder,
                runtime::load_embedder(std::move(file), settings, runtime->runtime, observer));
  } else {
    CHIMERE_TRY(model->text,
                runtime::TextModel::load(std::move(file), settings, runtime->runtime, observer));
  }
  *out = new chimere_model{std::move(model)};
  return {};
}

Status get_info(const chimere_model* model, chimere_model_info* info) {
  if (model == nullptr) return missing("model");
  if (info == nullptr) return missing("info");
  const Model& m = *model->model;
  const runtime::LoadedModel& loaded = m.loaded();
  chimere_model_info out = {};
  out.context = m.text ? m.text->context() : m.embedder->embedder->context();
  out.vocabulary = loaded.model->n_vocab();
  out.dimensions = m.text ? 0 : m.embedder->embedder->dimensions();
  out.bos = loaded.tokenizer->bos();
  out.eos = loaded.tokenizer->eos();
  out.on_gpu = loaded.gpu != nullptr;
  out.has_chat_template = m.text && m.text->has_chat_template();
  return output_struct(out, info);
}

Status embed(const chimere_model* model, const char* text, size_t text_size,
             std::vector<float>& out) {
  if (model == nullptr) return missing("model");
  CHIMERE_TRY(const auto bytes, input(text, text_size, "text"));
  Model& m = *model->model;
  if (!m.embedder) {
    return unsupported(
        "This model generates text and makes no embeddings; load an embedding model.");
  }
  engine::Embedder& embedder = *m.embedder->embedder;
  const std::vector<int32_t> tokens = embedder.encode(std::string(bytes.begin(), bytes.end()));
  const std::scoped_lock lock(m.embedding);
  CHIMERE_TRY(auto vectors, embedder.embed({&tokens, 1}));
  out = std::move(vectors.front());
  return {};
}

}  // namespace
}  // namespace chimere::c_api

using namespace chimere::c_api;  // NOLINT(google-build-using-namespace): a border, not a header

chimere_status chimere_runtime_create(const chimere_option* options, size_t n_options,
                                      chimere_runtime** runtime) {
  return guarded([&] { return create_runtime(options, n_options, runtime); });
}

void chimere_runtime_free(chimere_runtime* runtime) { delete runtime; }

chimere_status chimere_model_load(chimere_runtime* runtime, const char* name,
                                  const chimere_option* options, size_t n_options,
                                  chimere_log_callback log, void* user_data,
                                  chimere_model** model) {
  return guarded(
      [&] { return load_model(runtime, name, options, n_options, log, user_data, model); });
}

void chimere_model_free(chimere_model* model) { delete model; }

chimere_status chimere_model_get_info(chimere_model* model, chimere_model_info* info) {
  return guarded([&] { return get_info(model, info); });
}

chimere_status chimere_tokenize(chimere_model* model, const char* text, size_t text_size,
                                uint32_t flags, int32_t* tokens, size_t capacity, size_t* size) {
  std::vector<int32_t> out;
  const chimere_status status = guarded([&]() -> chimere::Status {
    if (model == nullptr) return missing("model");
    if (size == nullptr) return missing("size");
    if (tokens == nullptr && capacity > 0) return missing("tokens");
    CHIMERE_TRY(const auto bytes, input(text, text_size, "text"));
    const std::string_view view(bytes.data(), bytes.size());
    const chimere::text::Tokenizer& tokenizer = *model->model->loaded().tokenizer;
    const bool special = (flags & CHIMERE_TOKENIZE_SPECIAL) != 0;
    out = (flags & CHIMERE_TOKENIZE_BOS) != 0 ? tokenizer.encode_with_bos(view, special)
                                              : tokenizer.encode(view, special);
    return {};
  });
  return status != CHIMERE_OK ? status
                              : output(std::span<const int32_t>(out), tokens, capacity, size);
}

chimere_status chimere_detokenize(chimere_model* model, const int32_t* tokens, size_t n_tokens,
                                  uint32_t flags, char* text, size_t capacity, size_t* size) {
  std::string out;
  const chimere_status status = guarded([&]() -> chimere::Status {
    if (model == nullptr) return missing("model");
    if (size == nullptr) return missing("size");
    if (text == nullptr && capacity > 0) return missing("text");
    CHIMERE_TRY(const auto ids, input(tokens, n_tokens, "tokens"));
    const bool special = (flags & CHIMERE_DETOKENIZE_SPECIAL) != 0;
    out = model->model->loaded().tokenizer->decode(ids, special);
    return {};
  });
  return status != CHIMERE_OK ? status : output(std::span<const char>(out), text, capacity, size);
}

chimere_status chimere_apply_chat_template(chimere_model* model, const chimere_message* messages,
                                           size_t n_messages, const chimere_option* options,
                                           size_t n_options, int32_t* tokens, size_t capacity,
                                           size_t* size) {
  std::vector<int32_t> out;
  const chimere_status status = guarded([&]() -> chimere::Status {
    CHIMERE_TRY(const auto* text, text_model(model));
    if (size == nullptr) return missing("size");
    if (tokens == nullptr && capacity > 0) return missing("tokens");
    CHIMERE_TRY(const auto given, input(messages, n_messages, "messages"));
    std::vector<chimere::text::ChatMessage> conversation;
    for (const chimere_message& m : given) {
      if (m.role == nullptr || m.content == nullptr) return missing("messages[i]");
      conversation.push_back({.role = m.role, .content = m.content});
    }
    chimere::Settings settings = text->settings();
    CHIMERE_TRY(
        [[maybe_unused]] const auto own,
        apply_options(options, n_options, {}, chimere::c_api::applies_to_generation, settings));
    CHIMERE_TRY(out, text->chat(conversation, settings));
    return {};
  });
  return status != CHIMERE_OK ? status
                              : output(std::span<const int32_t>(out), tokens, capacity, size);
}

chimere_status chimere_log_probabilities(chimere_model* model, const int32_t* tokens,
                                         size_t n_tokens, float* logprobs) {
  return guarded([&]() -> chimere::Status {
    CHIMERE_TRY(auto* text, text_model(model));
    CHIMERE_TRY(const auto ids, input(tokens, n_tokens, "tokens"));
    if (logprobs == nullptr) return missing("logprobs");
    CHIMERE_TRY(const std::vector<float> out, text->log_probabilities(ids));
    std::ranges::copy(out, logprobs);
    return {};
  });
}

chimere_status chimere_embed(chimere_model* model, const char* text, size_t text_size,
                             float* vector, size_t capacity, size_t* size) {
  std::vector<float> out;
  const chimere_status status = guarded([&]() -> chimere::Status {
    if (size == nullptr) return missing("size");
    if (vector == nullptr && capacity > 0) return missing("vector");
    return embed(model, text, text_size, out);
  });
  return status != CHIMERE_OK ? status
                              : output(std::span<const float>(out), vector, capacity, size);
}
