#include "text/pre_tokenizer.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "text/pre_tokenizer_rules.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace chimere::text {
namespace {

/// The White_Space property. Written out because regular-expression libraries differ in their
/// definition of \s (PCRE2 adds U+180E, JavaScript U+FEFF).
constexpr std::string_view kWhiteSpace =
    R"(\t-\r \x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";

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
  const PreTokenizerRule* rule = nullptr;
  std::vector<Code> stages;
  std::vector<Code> byte_stages;

  Status compile(const std::vector<const char*>& patterns, uint32_t options,
                 std::vector<Code>& into) const;
};

namespace {

/// The memory of one call of split().
class Splitter {
 public:
  Splitter()
      : match_(pcre2_match_data_create(1, nullptr)), context_(pcre2_match_context_create(nullptr)) {
    // The patterns take linear time; the default limit would stop them at a few megabytes of one
    // class.
    pcre2_set_match_limit(context_.get(), UINT32_MAX);
  }

  /// Splits `text` by the stages; each splits the parts left by the previous one.
  void split(std::string_view text, std::span<const Code> stages, const WordFn& fn) {
    if (text.empty()) return;
    if (stages.empty()) {
      fn(text);
      return;
    }
    size_t done = 0;
    while (done < text.size()) {
      const auto [begin, end] = find(stages.front().get(), text, done);
      // The recursion overwrites the match data, which is no longer needed here.
      split(text.substr(done, begin - done), stages.subspan(1), fn);
      split(text.substr(begin, end - begin), stages.subspan(1), fn);
      done = end;
    }
  }

 private:
  /// The first match at or after `from`; without one, the empty end of the text.
  std::pair<size_t, size_t> find(const pcre2_code* code, std::string_view text, size_t from) {
    const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
    constexpr uint32_t kOptions = PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY;
    int found =
        pcre2_match(code, subject, text.size(), from, kOptions, match_.get(), context_.get());
    if (found == PCRE2_ERROR_JIT_STACKLIMIT) {
      found = pcre2_match(code, subject, text.size(), from, kOptions | PCRE2_NO_JIT, match_.get(),
                          context_.get());
    }
    if (found > 0) {
      const PCRE2_SIZE* ovector = pcre2_get_ovector_pointer(match_.get());
      return {ovector[0], ovector[1]};
    }
    if (found == PCRE2_ERROR_NOMATCH) return {text.size(), text.size()};
    // The matcher is out of memory: single characters still concatenate to the same text.
    return {from, from + read_utf8(text, from).length};
  }

  MatchData match_;
  Context context_;
};

}  // namespace

PreTokenizer::PreTokenizer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
PreTokenizer::~PreTokenizer() = default;

Result<std::unique_ptr<PreTokenizer>> PreTokenizer::create(std::string_view name) {
  const PreTokenizerRule* rule = nullptr;
  for (const PreTokenizerRule& r : pre_tokenizer_rules()) {
    if (std::ranges::find(r.names, name) != r.names.end()) rule = &r;
  }
  if (rule == nullptr) {
    std::string message = "The pre-tokenizer '" + std::string(name) + "' is not known. Known are:";
    for (const std::string& known : known_names()) message += " " + known;
    return unsupported(message + ".");
  }
  auto impl = std::make_unique<Impl>();
  impl->rule = rule;
  CHIMERE_CHECK_OK(impl->compile(rule->stages, PCRE2_UTF, impl->stages));
  CHIMERE_CHECK_OK(impl->compile(rule->byte_stages, 0, impl->byte_stages));
  return std::unique_ptr<PreTokenizer>(new PreTokenizer(std::move(impl)));
}

Status PreTokenizer::Impl::compile(const std::vector<const char*>& patterns, uint32_t options,
                                   std::vector<Code>& into) const {
  for (const char* pattern : patterns) {
    const std::string expanded = expand_white_space(pattern);
    int error = 0;
    PCRE2_SIZE offset = 0;
    Code code(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(expanded.data()), expanded.size(), options,
                            &error, &offset, nullptr));
    if (code == nullptr) {
      return unsupported(
          "The installed PCRE2 library cannot compile the pattern of pre-tokenizer '" +
          std::string(rule->names.front()) + "' (built without Unicode?). Install another build.");
    }
    // Without a just-in-time compiler (hardened systems) the interpreter gives the same words.
    (void)pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
    into.push_back(std::move(code));
  }
  return {};
}

void PreTokenizer::split(std::string_view text, const WordFn& fn) const {
  Splitter splitter;
  const WordFn finish = [&](std::string_view word) {
    splitter.split(word, impl_->byte_stages, fn);
  };
  if (is_valid_utf8(text)) {
    splitter.split(text, impl_->stages, finish);
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
  splitter.split(copy, impl_->stages, [&](std::string_view word) {
    size_t length = 0;
    for (size_t i = 0; i < word.size();) {
      const int bytes = read_utf8(word, i).length;
      length += replaced[character++] ? 1 : bytes;
      i += bytes;
    }
    finish(text.substr(at, length));
    at += length;
  });
}

bool PreTokenizer::wants_nfc() const { return impl_->rule->nfc; }

bool PreTokenizer::whole_words_first() const { return impl_->rule->whole_words_first; }

std::vector<std::string> PreTokenizer::known_names() {
  std::vector<std::string> names;
  for (const PreTokenizerRule& r : pre_tokenizer_rules()) {
    names.insert(names.end(), r.names.begin(), r.names.end());
  }
  return names;
}

Status for_each_word(std::string_view pre, std::string_view text, const WordFn& fn) {
  CHIMERE_TRY(const auto splitter, PreTokenizer::create(pre));
  splitter->split(splitter->wants_nfc() ? nfc(text) : std::string(text), fn);
  return {};
}

}  // namespace chimere::text
