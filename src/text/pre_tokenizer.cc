#include "text/pre_tokenizer.h"

#include <cstdint>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/utf8.h"

namespace chimere::text {
namespace {

/// The White_Space property. Written out because each regular-expression library has its own idea
/// of \s (PCRE2 adds U+180E, JavaScript U+FEFF).
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen35 =
    R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?:'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kTekken =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kDeepSeek3Words =
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kCjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";

struct Rule {
  const char* name;
  std::vector<const char*> stages;  ///< each splits what the one before left into matches and gaps
  bool whole_words_first = false;
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> table = {
      {"qwen2", {kQwen2}},
      {"qwen35", {kQwen35}},
      {"gpt-2", {kGpt2}},
      {"llama-bpe", {kLlama3}, true},
      {"llama3", {kLlama3}, true},
      {"gpt-4o", {kGpt4o}, true},
      {"tekken", {kTekken}, true},
      {"deepseek-v3", {R"(\p{N}{1,3})", kCjk, kDeepSeek3Words}},
      {"starcoder", {R"(\p{N})", kGpt2}},
      {"refact", {R"(\p{N})", kGpt2}},
      {"smollm", {R"(\p{N})", kGpt2}},
      {"falcon", {R"([\p{P}$+<=>^~|`]+)", kGpt2, R"([0-9][0-9][0-9])"}},
  };
  return table;
}

/// Replaces \s and \S by the explicit set.
std::string expand_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c != '\\') {
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      out.push_back(c);
      continue;
    }
    const char escaped = pattern[++i];
    if (escaped == 's' || escaped == 'S') {
      if (!in_class) out += escaped == 's' ? "[" : "[^";
      out += kWhiteSpace;
      if (!in_class) out += "]";
    } else {
      out += {c, escaped};
    }
  }
  return out;
}

struct CodeDeleter {
  void operator()(pcre2_code* p) const { pcre2_code_free(p); }
};
struct MatchDataDeleter {
  void operator()(pcre2_match_data* p) const { pcre2_match_data_free(p); }
};
struct ContextDeleter {
  void operator()(pcre2_match_context* p) const { pcre2_match_context_free(p); }
};
using Code = std::unique_ptr<pcre2_code, CodeDeleter>;
using MatchData = std::unique_ptr<pcre2_match_data, MatchDataDeleter>;
using Context = std::unique_ptr<pcre2_match_context, ContextDeleter>;

using WordFn = std::function<void(std::string_view)>;

}  // namespace

struct PreTokenizer::Impl {
  const Rule* rule = nullptr;
  std::vector<Code> stages;

  void split_valid(std::string_view text, size_t stage, pcre2_match_data* match,
                   pcre2_match_context* context, const WordFn& fn) const;
};

/// `text` is valid UTF-8.
void PreTokenizer::Impl::split_valid(std::string_view text, size_t stage, pcre2_match_data* match,
                                     pcre2_match_context* context, const WordFn& fn) const {
  if (text.empty()) return;
  if (stage == stages.size()) {
    fn(text);
    return;
  }
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0;
  while (done < text.size()) {
    const int found = pcre2_match(stages[stage].get(), subject, text.size(), done,
                                  PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match, context);
    size_t begin = text.size();
    size_t end = text.size();
    if (found > 0) {
      const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(match);
      begin = ovector[0];
      end = ovector[1];
    } else if (found != PCRE2_ERROR_NOMATCH) {
      // The matcher ran out of a resource: a character by itself still gives back the same text.
      begin = done;
      end = done + read_utf8(text, done).length;
    }
    // The recursion overwrites the match data, which is no longer needed here.
    if (begin > done) split_valid(text.substr(done, begin - done), stage + 1, match, context, fn);
    if (end > begin) split_valid(text.substr(begin, end - begin), stage + 1, match, context, fn);
    done = end;
  }
}

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::create(std::string_view name) {
  const Rule* rule = nullptr;
  for (const Rule& r : rules()) {
    if (r.name == name) rule = &r;
  }
  if (rule == nullptr) {
    std::string message = "The pre-tokenizer '" + std::string(name) + "' is not known. Known are:";
    for (const std::string& known : known_names()) message += " " + known;
    return unsupported(message + ".");
  }
  auto impl = std::make_unique<Impl>();
  impl->rule = rule;
  for (const char* pattern : rule->stages) {
    const std::string expanded = expand_white_space(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(),
                            PCRE2_UTF, &error, &offset, nullptr));
    if (code == nullptr) {
      return unsupported(
          "The installed PCRE2 library cannot compile the pattern of pre-tokenizer '" +
          std::string(name) + "' (built without Unicode?). Install another build.");
    }
    // Without a just-in-time compiler (hardened systems) the interpreter gives the same words.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    impl->stages.push_back(std::move(code));
  }
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

void PreTokenizer::split(std::string_view text, const WordFn& fn) const {
  const MatchData match(pcre2_match_data_create(1, nullptr));
  const Context context(pcre2_match_context_create(nullptr));
  // The patterns take linear time; the default limit would stop them at a few megabytes of one
  // class.
  pcre2_set_match_limit(context.get(), UINT32_MAX);
  if (is_valid_utf8(text)) {
    impl_->split_valid(text, 0, match.get(), context.get(), fn);
    return;
  }
  // Split a copy in which U+FFFD stands for each invalid byte, and cut the original at the same
  // places.
  constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
  std::string copy;
  std::vector<bool> replaced;  // by character of the copy
  for (size_t at = 0; at < text.size();) {
    const Utf8Char c = read_utf8(text, at);
    const bool valid = c.kind == Utf8Char::Kind::kValid;
    copy += valid ? text.substr(at, c.length) : kReplacement;
    replaced.push_back(!valid);
    at += valid ? c.length : 1;
  }
  size_t at = 0;
  size_t character = 0;
  impl_->split_valid(copy, 0, match.get(), context.get(), [&](std::string_view word) {
    size_t length = 0;
    for (size_t i = 0; i < word.size();) {
      const int bytes = read_utf8(word, i).length;
      length += replaced[character++] ? 1 : bytes;
      i += bytes;
    }
    fn(text.substr(at, length));
    at += length;
  });
}

bool PreTokenizer::whole_words_first() const { return impl_->rule->whole_words_first; }

std::vector<std::string> PreTokenizer::known_names() {
  std::vector<std::string> names;
  for (const Rule& r : rules()) names.emplace_back(r.name);
  return names;
}

Status for_each_word(std::string_view pre, std::string_view text, const WordFn& fn) {
  CHIMERE_TRY(const auto splitter, PreTokenizer::create(pre));
  splitter->split(text, fn);
  return {};
}

}  // namespace chimere::text
