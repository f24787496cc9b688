// Flags of llama.cpp, Ollama and vLLM that this program has under other names or not at all.
#ifndef CHIMERE_APPS_CHIMERE_FOREIGN_FLAGS_H_
#define CHIMERE_APPS_CHIMERE_FOREIGN_FLAGS_H_

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace chimere::app {

/// A flag of another program.
struct ForeignFlag {
  enum class Use : uint8_t {
    kSynonym,  ///< of the flag `ours`, with the same values
    kIgnored,  ///< changes nothing here; `advice` says why
    kRefused,  ///< `advice` says what does it here
  };
  /// What follows an ignored flag.
  enum class Value : uint8_t { kNone, kOne, kSwitch /* on, off, ..., or nothing */ };

  std::string_view name;    ///< with its dashes
  std::string_view ours;    ///< of a synonym, with its dashes
  std::string_view advice;  ///< a sentence without its full stop
  Use use;
  Value value = Value::kNone;
};

/// All known foreign flags; names are unique.
std::span<const ForeignFlag> foreign_flags();

/// A flag that the command declares.
struct OwnFlag {
  bool declared = false;
  bool takes_value = false;
};

/// A command line without flags of other programs.
struct OwnArguments {
  std::vector<std::string> words = {};
  std::vector<std::string> notices = {};  ///< a sentence for each ignored flag
  std::string refusal =
      {};  ///< advice for the first flag that cannot be taken; empty: there is none
};

/// Replaces synonyms, removes flags that change nothing, and advises on the others. Flags that the
/// command declares are its own, and what follows them is their value. `own`: by name ("--temp").
OwnArguments without_foreign_flags(std::span<const std::string> words,
                                   const std::function<OwnFlag(const std::string&)>& own);

}  // namespace chimere::app

#endif  // CHIMERE_APPS_CHIMERE_FOREIGN_FLAGS_H_
