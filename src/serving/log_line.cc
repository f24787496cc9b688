#include "serving/log_line.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>

namespace chimere::serving {
namespace {

void append(const std::string& value, std::string& out) {
  bool plain = !value.empty();
  for (const char c : value) plain &= c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != '=';
  if (plain) {
    out += value;
    return;
  }
  out += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += fmt::format("\\x{:02x}", byte);
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

LogLine::LogLine(std::string_view event) {
  add("time", fmt::format("{:%Y-%m-%dT%H:%M:%S}Z", std::chrono::floor<std::chrono::seconds>(
                                                       std::chrono::system_clock::now())));
  add("event", event);
}

LogLine& LogLine::add(std::string_view key, std::string_view value) {
  values_.emplace_back(key, std::string(value));
  return *this;
}

LogLine& LogLine::add(std::string_view key, int64_t value) {
  values_.emplace_back(key, value);
  return *this;
}

LogLine& LogLine::add_seconds(std::string_view key, double seconds) {
  values_.emplace_back(key, seconds * 1000);
  return *this;
}

std::string LogLine::text() const {
  std::string out;
  for (const auto& [key, value] : values_) {
    out += out.empty() ? "" : " ";
    out += key;
    out += '=';
    if (const auto* text = std::get_if<std::string>(&value)) {
      append(*text, out);
    } else if (const auto* number = std::get_if<int64_t>(&value)) {
      out += std::to_string(*number);
    } else {
      out += fmt::format("{:.1f}", std::get<double>(value));
    }
  }
  return out;
}

std::string LogLine::json() const {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  for (const auto& [key, value] : values_) {
    std::visit([&out, &key = key](const auto& v) { out[key] = v; }, value);
  }
  return out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace chimere::serving
