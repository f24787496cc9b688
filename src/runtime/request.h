// Makes engine requests from settings.
#ifndef CHIMERE_RUNTIME_REQUEST_H_
#define CHIMERE_RUNTIME_REQUEST_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/settings.h"
#include "engine/request.h"
#include "engine/thinking.h"
#include "engram/memory.h"
#include "runtime/loaded_model.h"
#include "sampling/dry.h"
#include "text/reasoning_tags.h"
#include "text/tokenizer.h"

namespace chimere::runtime {

/// --seed, or a random seed if that is -1.
uint64_t seed_from(const Settings& settings);

/// The value of --reasoning. Errors: kInvalidArgument.
struct Reasoning {
  std::optional<bool> wanted;  ///< for Conversation::set_thinking()
  int32_t budget = 0;          ///< tokens of reasoning, if it is wanted
  int32_t least = 0;           ///< see engine::ThinkingParams
};
Result<Reasoning> reasoning_from(const Settings& settings);

/// Makes the requests of one model. Caches what needs a scan of the whole vocabulary or an opened
/// table, at the first request that uses it. Thread-safe.
class RequestFactory {
 public:
  /// `tags`: of the model's reasoning. The tokenizer must outlive the factory.
  RequestFactory(const text::Tokenizer& tokenizer, text::ReasoningTags tags)
      : tokenizer_(tokenizer), tags_(std::move(tags)) {}

  /// max_tokens, speculation, thinking and sampling as the settings say, with the tables that they
  /// name followed by `more`. A table whose file was replaced is opened again. Errors:
  /// kInvalidArgument (--reasoning, --logit-bias, --dry-sequence-breakers), kUnsupported (reasoning
  /// of a model that has none); those of open_table().
  Result<engine::Request> make(const Settings& settings, const engram::Memory::Tables& more = {});

 private:
  struct OpenTable {
    std::shared_ptr<const engram::Table> table;
    std::filesystem::file_time_type time;
  };
  struct Breakers {
    std::vector<std::string> texts;
    std::shared_ptr<const sampling::DryBreakers> tokens;
  };

  Result<std::optional<engine::ThinkingParams>> thinking(const Settings& settings);
  std::shared_ptr<const sampling::DryBreakers> breakers(const std::vector<std::string>& texts);
  Result<engram::Memory::Tables> tables(const Settings& settings);

  const text::Tokenizer& tokenizer_;
  text::ReasoningTags tags_;
  std::mutex mutex_;
  std::optional<std::optional<engine::ThinkingParams>> thinking_;
  Breakers breakers_;  ///< of the last request with DRY
  std::map<std::string, OpenTable> tables_;
};

/// RequestFactory::make() for a program that makes a single request, with with_file_defaults() and
/// the model's adapters. `tags`: as of RequestFactory.
Result<engine::Request> request_from(const Settings& settings, const LoadedModel& loaded,
                                     const text::ReasoningTags& tags);

}  // namespace chimere::runtime

#endif  // CHIMERE_RUNTIME_REQUEST_H_
