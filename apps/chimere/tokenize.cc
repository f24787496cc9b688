// chimere tokenize and chimere detokenize.
#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/system.h"
#include "command.h"
#include "json.h"
#include "loading.h"
#include "runtime/loaded_model.h"

namespace chimere::app {
namespace {

struct TokenizeFlags {
  std::optional<std::string> text;
  bool special = false;
};

Status tokenize(const CommandLine& line, const TokenizeFlags& flags) {
  std::string text;
  if (flags.text) {
    text = *flags.text;
  } else {
    CHIMERE_TRY(text, read_standard_input());
  }
  CHIMERE_TRY(const auto file, open_model(line.settings));
  CHIMERE_TRY(const auto tokenizer, runtime::load_tokenizer(*file));
  const std::vector<int32_t> ids = tokenizer->encode(text, flags.special);
  if (line.json) {
    print_json({{"tokens", ids}});
    return {};
  }
  for (const int32_t id : ids) {
    std::cout << fmt::format("{:>8}  {}\n", id,
                             Json(tokenizer->token_bytes(id, true)).dump(-1, ' ', false, kLenient));
  }
  return {};
}

Status detokenize(const CommandLine& line, const std::string& list) {
  CHIMERE_TRY(const auto ids, parse_numbers(list, 0, kMaxTokenId, "token id"));
  CHIMERE_TRY(const auto file, open_model(line.settings));
  CHIMERE_TRY(const auto tokenizer, runtime::load_tokenizer(*file));
  for (const int32_t id : ids) {
    if (id < tokenizer->n_tokens()) continue;
    return invalid_argument(fmt::format("Token {} does not exist; ids go from 0 to {}.", id,
                                        tokenizer->n_tokens() - 1));
  }
  const std::string text = tokenizer->decode(ids, true);
  if (line.json) {
    print_json({{"text", text}});
  } else {
    std::cout << text << '\n';
  }
  return {};
}

}  // namespace

void declare_tokenize(Command& app, CommandLine& line) {
  const auto flags = std::make_shared<TokenizeFlags>();
  Command command = add_command(
      app, line, "tokenize",
      "Shows the tokens (pieces of words) that a text consists of for a model, as numbers",
      [&line, flags] { return tokenize(line, *flags); });
  add_settings(command, line, {SettingGroup::kModelName, SettingGroup::kQuiet});
  command.option("TEXT", flags->text, "The text; default: standard input");
  command.flag("--special", flags->special,
               "Parse control tokens that the text names, like <|im_end|>");
}

void declare_detokenize(Command& app, CommandLine& line) {
  const auto list = std::make_shared<std::string>();
  Command command =
      add_command(app, line, "detokenize", "Shows the text of tokens that are given as numbers",
                  [&line, list] { return detokenize(line, *list); });
  add_settings(command, line, {SettingGroup::kModelName, SettingGroup::kQuiet});
  command.option("IDS", *list, "Token ids, like 1,2,3")
      .required()
      .check(number_list(0, kMaxTokenId, "token id"));
}

}  // namespace chimere::app
