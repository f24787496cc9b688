// Command-line flags of the training programs (the GPU machine has no CLI library).
#ifndef CHIMERE_TRAIN_ARGUMENTS_H_
#define CHIMERE_TRAIN_ARGUMENTS_H_

#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace chimere::train {

/// `--name value` pairs and plain words after the subcommand. Every flag must be read by get(), or
/// unread() names it: a misspelt flag is an error, never ignored.
class Arguments {
 public:
  Arguments(int argc, char** argv) {
    for (int i = 2; i < argc; ++i) {
      const std::string word = argv[i];
      if (word.rfind("--", 0) == 0 && i + 1 < argc) {
        flags_[word.substr(2)] = argv[++i];
      } else {
        words_.push_back(word);
      }
    }
  }

  std::string get(const std::string& name, const std::string& fallback) {
    const auto it = flags_.find(name);
    if (it == flags_.end()) return fallback;
    std::string value = it->second;
    flags_.erase(it);
    return value;
  }
  double number(const std::string& name, double fallback) {
    const std::string value = get(name, "");
    return value.empty() ? fallback : std::strtod(value.c_str(), nullptr);
  }
  int64_t integer(const std::string& name, int64_t fallback) {
    return static_cast<int64_t>(number(name, static_cast<double>(fallback)));
  }

  const std::vector<std::string>& words() const { return words_; }
  Status unread() const {
    if (flags_.empty()) return {};
    return invalid_argument("Unknown flag --" + flags_.begin()->first + ".");
  }

 private:
  std::map<std::string, std::string> flags_;
  std::vector<std::string> words_;
};

}  // namespace chimere::train

#endif  // CHIMERE_TRAIN_ARGUMENTS_H_
