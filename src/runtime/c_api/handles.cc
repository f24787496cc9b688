#include "runtime/c_api/handles.h"

namespace chimere::c_api {
namespace {

std::string& last_error() {
  static thread_local std::string message;
  return message;
}

chimere_status status_of(Error::Code code) {
  switch (code) {
    case Error::Code::kInvalidArgument:
      return CHIMERE_INVALID_ARGUMENT;
    case Error::Code::kInvalidData:
      return CHIMERE_INVALID_DATA;
    case Error::Code::kNotFound:
      return CHIMERE_NOT_FOUND;
    case Error::Code::kOutOfMemory:
      return CHIMERE_OUT_OF_MEMORY;
    case Error::Code::kOutOfSpace:
      return CHIMERE_OUT_OF_SPACE;
    case Error::Code::kUnsupported:
      return CHIMERE_UNSUPPORTED;
    case Error::Code::kIo:
      return CHIMERE_IO;
    case Error::Code::kCancelled:
      return CHIMERE_CANCELLED;
  }
  return CHIMERE_INTERNAL;
}

}  // namespace

chimere_status fail(chimere_status status, std::string_view message) noexcept {
  try {
    last_error() = message;
  } catch (...) {
    last_error().clear();  // no memory for the message
  }
  return status;
}

chimere_status fail(const Error& error) noexcept {
  return fail(status_of(error.code), error.message);
}

bool applies_to_model(const SettingInfo& setting) {
  constexpr std::string_view kOfRuntime[] = {"model", "threads"};
  constexpr std::string_view kOfService[] = {"max-running", "max-queue", "state-memory"};
  if (std::ranges::find(kOfRuntime, setting.name) != std::end(kOfRuntime)) return false;
  return setting.groups.has(SettingGroup::kModel) || applies_to_generation(setting) ||
         setting.groups.has(SettingGroup::kChatTemplate) ||
         setting.groups.has(SettingGroup::kDrafter) ||
         setting.groups.has(SettingGroup::kPrefixCache) ||
         setting.groups.has(SettingGroup::kStateFolder) ||
         std::ranges::find(kOfService, setting.name) != std::end(kOfService);
}

bool applies_to_generation(const SettingInfo& setting) {
  return setting.groups.has(SettingGroup::kSampling) || setting.groups.has(SettingGroup::kEngram);
}

Result<std::vector<std::pair<std::string, std::string>>> apply_options(
    const chimere_option* options, size_t n_options, std::span<const std::string_view> own,
    SettingApplies applies, Settings& out) {
  std::vector<std::pair<std::string, std::string>> taken;
  CHIMERE_TRY(const auto given, input(options, n_options, "options"));
  for (const chimere_option& option : given) {
    if (option.name == nullptr) return missing("options[i].name");
    if (option.value == nullptr) return missing("options[i].value");
    if (std::ranges::find(own, option.name) != own.end()) {
      taken.emplace_back(option.name, option.value);
      continue;
    }
    const SettingInfo* setting = settings::find(option.name);
    if (setting == nullptr) {
      return not_found("There is no option '" + std::string(option.name) +
                       "'; `chimere run --help` lists the settings.");
    }
    if (!applies(*setting)) {
      return invalid_argument("The option '" + std::string(option.name) +
                              "' has no effect in this call; chimere.h says where options of its "
                              "kind belong.");
    }
    if (auto done = out.set(*setting, option.value, "option " + std::string(option.name));
        !done.ok())
      return std::move(done).error();
  }
  return taken;
}

Result<runtime::TextModel*> text_model(const chimere_model* model) {
  if (model == nullptr) return missing("model");
  if (model->model->text == nullptr) {
    return unsupported("This is an embedding model, which generates no text.");
  }
  return model->model->text.get();
}

}  // namespace chimere::c_api

uint32_t chimere_api_version(void) { return CHIMERE_API_VERSION; }

const char* chimere_version(void) { return CHIMERE_VERSION; }

const char* chimere_last_error(void) { return chimere::c_api::last_error().c_str(); }
