// Sequences of <chimere/chimere.h>: generation, saving and restoring.
#include "base/file_stream.h"
#include "runtime/c_api/handles.h"

namespace chimere::c_api {
namespace {

int32_t finish_of(engine::FinishReason reason) {
  switch (reason) {
    case engine::FinishReason::kLength:
      return CHIMERE_FINISH_LENGTH;
    case engine::FinishReason::kContextFull:
      return CHIMERE_FINISH_CONTEXT;
    case engine::FinishReason::kCancelled:
      return CHIMERE_FINISH_CANCELLED;
    default:
      return CHIMERE_FINISH_STOP;
  }
}

/// Runs `body` on a sequence that no other call uses meanwhile.
template <typename Body>
chimere_status with(chimere_sequence* sequence, const Body& body) noexcept {
  if (sequence == nullptr) return fail(CHIMERE_INVALID_ARGUMENT, "The sequence is NULL.");
  if (sequence->busy.exchange(true)) {
    return fail(CHIMERE_BUSY, "Another call uses this sequence; wait for it.");
  }
  const chimere_status status = guarded([&] { return body(*sequence); });
  sequence->busy = false;
  return status;
}

/// Adds an option that says what the answer follows. Errors: kInvalidArgument (a second one).
Status add_constraint(const std::string& name, const std::string& value,
                      std::optional<constraints::ConstraintSpec>& out) {
  if (name == "choice" && out) {
    if (auto* choices = std::get_if<constraints::ChoicesSpec>(&out->content)) {
      choices->texts.push_back(value);
      return {};
    }
  }
  if (out) {
    return invalid_argument(
        "An answer follows one of json-schema, grammar, regex and choice, not two of them.");
  }
  out.emplace();
  if (name == "json-schema") {
    out->content = constraints::JsonSchemaSpec{value};
  } else if (name == "grammar") {
    out->content = constraints::GbnfSpec{value};
  } else if (name == "regex") {
    out->content = constraints::RegexSpec{value};
  } else {
    out->content = constraints::ChoicesSpec{{value}};
  }
  return {};
}

Status generate(chimere_sequence& handle, const chimere_option* options, size_t n_options,
                chimere_token_callback callback, void* user_data, chimere_generation* result) {
  runtime::TextModel& model = *handle.model->text;
  constexpr std::string_view kOwn[] = {"stop",  "logprobs", "json-schema", "grammar",
                                       "regex", "choice",   "split"};
  Settings settings = model.settings();
  CHIMERE_TRY(const auto own,
              apply_options(options, n_options, kOwn, applies_to_generation, settings));
  runtime::TextModel::Generate wanted;
  for (const auto& [name, value] : own) {
    if (name == "stop") {
      if (value.empty()) return invalid_argument("The option stop is empty.");
      wanted.stop.push_back(value);
    } else if (name != "logprobs" && name != "split") {
      CHIMERE_CHECK_OK(add_constraint(name, value, wanted.constraint));
    } else if (value == "0" || value == "1") {
      (name == "split" ? wanted.split : wanted.logprobs) = value == "1";
    } else {
      return invalid_argument("The option " + name + " is 0 or 1, not '" + value + "'.");
    }
  }
  // A random seed is drawn here, so that the result can name it.
  const uint64_t seed = runtime::seed_from(settings);
  if (auto done = settings.set(settings::kSeed, std::to_string(seed), "libchimere"); !done.ok())
    return std::move(done).error();
  runtime::TextModel::OnToken on_token;
  if (callback != nullptr) {
    on_token = [&](const runtime::TextModel::Piece& piece) {
      const std::string text(piece.text);  // terminated by a zero
      const std::string reasoning(piece.reasoning);
      const chimere_token token = {
          sizeof(chimere_token), piece.token, wanted.logprobs ? piece.logprob : 0,
          text.c_str(),          text.size(), reasoning.c_str(),
          reasoning.size()};
      return callback(user_data, &token) == 0;
    };
  }
  CHIMERE_TRY(const engine::Outcome outcome,
              model.generate(handle.sequence, settings, wanted, on_token));
  if (result == nullptr) return {};
  chimere_generation out = {};
  out.finish = finish_of(outcome.reason);
  out.prompt_tokens = outcome.prompt_tokens;
  out.reused_tokens = outcome.reused_tokens;
  out.new_tokens = static_cast<int32_t>(outcome.tokens.size());
  out.prompt_seconds = outcome.prompt_seconds;
  out.decode_seconds = outcome.decode_seconds;
  out.seed = seed;
  return output_struct(out, result);
}

Status save(const chimere_sequence& handle, ByteSink& to) {
  if (!handle.sequence.generated.empty() && handle.sequence.state.empty()) {
    return unsupported(
        "A generation with a reasoning budget or Mirostat cannot be saved and continued.");
  }
  CHIMERE_TRY(const state::Hash128 weights, handle.model->text->weights_hash());
  return runtime::write_sequence(to, handle.sequence, weights);
}

Status restore(const chimere_model* model, ByteSource& from, chimere_sequence** out) {
  CHIMERE_TRY(auto* text, text_model(model));
  CHIMERE_TRY(const state::Hash128 weights, text->weights_hash());
  CHIMERE_TRY(runtime::Sequence sequence, runtime::read_sequence(from, weights));
  *out = new chimere_sequence{model->model, std::move(sequence)};
  return {};
}

}  // namespace
}  // namespace chimere::c_api

using namespace chimere::c_api;  // NOLINT(google-build-using-namespace): a border, not a header

chimere_status chimere_sequence_create(chimere_model* model, const int32_t* tokens, size_t n_tokens,
                                       chimere_sequence** sequence) {
  return guarded([&]() -> chimere::Status {
    CHIMERE_TRY([[maybe_unused]] const auto* text, text_model(model));
    if (sequence == nullptr) return missing("sequence");
    CHIMERE_TRY(const auto ids, input(tokens, n_tokens, "tokens"));
    if (ids.empty()) return chimere::invalid_argument("A sequence needs at least one token.");
    *sequence = new chimere_sequence{model->model, {{ids.begin(), ids.end()}, {}, {}}};
    return {};
  });
}

void chimere_sequence_free(chimere_sequence* sequence) { delete sequence; }

chimere_status chimere_generate(chimere_sequence* sequence, const chimere_option* options,
                                size_t n_options, chimere_token_callback callback, void* user_data,
                                chimere_generation* result) {
  return with(sequence, [&](chimere_sequence& s) -> chimere::Status {
    if (result != nullptr && result->struct_size < sizeof(size_t)) {
      return chimere::invalid_argument(
          "The field struct_size of the result is not set to the size of the struct.");
    }
    return generate(s, options, n_options, callback, user_data, result);
  });
}

chimere_status chimere_sequence_get_tokens(chimere_sequence* sequence, int32_t* tokens,
                                           size_t capacity, size_t* size, size_t* prompt_size) {
  std::vector<int32_t> out;
  const chimere_status status = with(sequence, [&](chimere_sequence& s) -> chimere::Status {
    if (size == nullptr) return missing("size");
    if (tokens == nullptr && capacity > 0) return missing("tokens");
    out = s.sequence.prompt;
    out.insert(out.end(), s.sequence.generated.begin(), s.sequence.generated.end());
    if (prompt_size != nullptr) *prompt_size = s.sequence.prompt.size();
    return {};
  });
  return status != CHIMERE_OK ? status
                              : output(std::span<const int32_t>(out), tokens, capacity, size);
}

chimere_status chimere_sequence_save(chimere_sequence* sequence, void* bytes, size_t capacity,
                                     size_t* size) {
  std::vector<uint8_t> out;
  const chimere_status status = with(sequence, [&](chimere_sequence& s) -> chimere::Status {
    if (size == nullptr) return missing("size");
    if (bytes == nullptr && capacity > 0) return missing("bytes");
    chimere::VectorSink sink(out);
    return save(s, sink);
  });
  return status != CHIMERE_OK
             ? status
             : output(std::span<const uint8_t>(out), static_cast<uint8_t*>(bytes), capacity, size);
}

chimere_status chimere_sequence_save_file(chimere_sequence* sequence, const char* path) {
  return with(sequence, [&](chimere_sequence& s) -> chimere::Status {
    if (path == nullptr) return missing("path");
    CHIMERE_TRY(chimere::AtomicFile file, chimere::AtomicFile::create(path));
    if (auto done = save(s, file); !done.ok()) return std::move(done).error();
    return file.commit();
  });
}

chimere_status chimere_sequence_restore(chimere_model* model, const void* bytes, size_t size,
                                        chimere_sequence** sequence) {
  return guarded([&]() -> chimere::Status {
    if (sequence == nullptr) return missing("sequence");
    CHIMERE_TRY(const auto given, input(static_cast<const uint8_t*>(bytes), size, "bytes"));
    chimere::SpanSource source(given);
    return restore(model, source, sequence);
  });
}

chimere_status chimere_sequence_restore_file(chimere_model* model, const char* path,
                                             chimere_sequence** sequence) {
  return guarded([&]() -> chimere::Status {
    if (sequence == nullptr) return missing("sequence");
    if (path == nullptr) return missing("path");
    CHIMERE_TRY(chimere::InputFile file, chimere::InputFile::open(path));
    return restore(model, file, sequence);
  });
}
