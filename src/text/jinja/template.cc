#include "text/jinja/template.h"

#include "text/jinja/evaluator.h"
#include "text/jinja/parser.h"

namespace chimere::text::jinja {

struct Template::Impl {
  Block block;
};

Template::Template(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Template::~Template() = default;
Template::Template(Template&&) noexcept = default;
Template& Template::operator=(Template&&) noexcept = default;

Result<Template> Template::parse(std::string_view source) {
  try {
    auto impl = std::make_unique<Impl>();
    impl->block = parse_template(source);
    return Template(std::move(impl));
  } catch (const TemplateError& e) {
    return invalid_data("The chat template is damaged or not supported. " + std::string(e.what()));
  }
}

Result<MarkedText> Template::render(const Dict& variables, const std::tm& now,
                                    const Limits& limits) const {
  Evaluator evaluator(limits, now);
  try {
    return evaluator.render(impl_->block, variables);
  } catch (const TemplateError& e) {
    return invalid_argument("Line " + std::to_string(evaluator.line()) +
                            " of the chat template: " + e.what());
  }
}

}  // namespace chimere::text::jinja
