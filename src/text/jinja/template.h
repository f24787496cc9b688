// A Jinja template: parsed once, rendered often.
#ifndef CHIMERE_TEXT_JINJA_TEMPLATE_H_
#define CHIMERE_TEXT_JINJA_TEMPLATE_H_

#include <ctime>
#include <memory>
#include <string_view>

#include "base/result.h"
#include "text/jinja/value.h"

namespace chimere::text::jinja {

/// The part of Jinja2 (https://jinja.palletsprojects.com) that chat templates use, with the
/// settings of transformers: trim_blocks, lstrip_blocks, loop controls, values that templates
/// cannot change. Safe to render from several threads at once.
class Template {
 public:
  /// Errors: kInvalidData with the line.
  static Result<Template> parse(std::string_view source);
  ~Template();
  Template(Template&&) noexcept;
  Template& operator=(Template&&) noexcept;

  /// `now` is what strftime_now writes. Time, memory, depth and output are bounded by `limits`.
  /// Errors: kInvalidArgument with the line: what the template refuses (raise_exception) or cannot
  /// do with these variables, or a limit.
  Result<MarkedText> render(const Dict& variables, const std::tm& now,
                            const Limits& limits = {}) const;

 private:
  struct Impl;
  explicit Template(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace chimere::text::jinja

#endif  // CHIMERE_TEXT_JINJA_TEMPLATE_H_
