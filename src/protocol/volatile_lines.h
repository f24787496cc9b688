// Lines of system messages that clients change in every request.
#ifndef CHIMERE_PROTOCOL_VOLATILE_LINES_H_
#define CHIMERE_PROTOCOL_VOLATILE_LINES_H_

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "protocol/requests.h"

namespace chimere::protocol {

/// A kind of line. It is recognised in system messages only, as a whole line.
struct VolatileRule {
  std::string_view name;
  std::string_view meaning;  ///< for the reference, without a full stop
  bool drop = false;         ///< the model does not see it; otherwise it is moved
  bool (*matches)(std::string_view line) = nullptr;
};
std::span<const VolatileRule> volatile_rules();

/// The rules of a list of names like "billing,clock"; "none": no rule. Errors: kInvalidArgument.
Result<std::vector<const VolatileRule*>> parse_volatile_rules(std::string_view names);

/// Takes such lines out of the system messages of a conversation, so that the prompts of its turns
/// begin with the same tokens. Lines that are not dropped are moved to the end of the conversation:
/// the model sees their newest values there.
class VolatileLines {
 public:
  VolatileLines(std::span<const VolatileRule* const> rules, std::vector<ChatMessage>& messages);

  /// Adds the moved lines to the text of the last message, after an empty line.
  void append_moved(std::vector<ChatMessage>& messages) const;
  /// Names of the rules that applied, each once.
  const std::vector<std::string>& rules() const { return applied_; }

 private:
  std::vector<std::string> applied_;
  std::string moved_;
};

}  // namespace chimere::protocol

#endif  // CHIMERE_PROTOCOL_VOLATILE_LINES_H_
