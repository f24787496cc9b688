#include "constraints/formats.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace chimere::constraints {
namespace {

using PatternOf = std::string (*)();

std::string group(const std::string& pattern) { return "(?:" + pattern + ")"; }

// RFC 3339. The year 0000 is left out: some validators count from 1.
std::string date() {
  const std::string year = "(?:[1-9]\\d{3}|0[1-9]\\d{2}|00[1-9]\\d|000[1-9])";
  const std::string fourth = "(?:0[48]|[2468][048]|[13579][26])";  // of 100 years, except the first
  return year +
         "-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\\d|30)|"
         "02-(?:0[1-9]|1\\d|2[0-8]))|(?:\\d\\d" +
         fourth + "|" + fourth + "00)-02-29";
}

std::string time() {
  const std::string fraction = "(?:\\.\\d{1,20})?";
  const std::string hour = "(?:[01]\\d|2[0-3])";
  return hour + ":[0-5]\\d:[0-5]\\d" + fraction + "(?:[Zz]|[+-]" + hour + ":[0-5]\\d)|23:59:60" +
         fraction + "[Zz]";
}

std::string date_time() { return group(date()) + "[Tt]" + group(time()); }

std::string duration() {
  const std::string count = "\\d{1,20}";
  const std::string day = count + "D";
  const std::string month = count + "M(?:" + day + ")?";
  const std::string year = count + "Y(?:" + month + ")?";
  const std::string second = count + "S";
  const std::string minute = count + "M(?:" + second + ")?";
  const std::string hour = count + "H(?:" + minute + ")?";
  const std::string clock = "T(?:" + hour + "|" + minute + "|" + second + ")";
  return "P(?:(?:" + year + "|" + month + "|" + day + ")(?:" + clock + ")?|" + clock + "|" + count +
         "W)";
}

// RFC 1123, without labels of the form xx--, which are reserved (RFC 5891).
std::string hostname() {
  const std::string inner = "[A-Za-z0-9-]";
  const std::string outer = "[A-Za-z0-9]";
  const std::string label = outer + "(?:" + outer + "|" + inner + outer + "|" + inner + "{2}" +
                            outer + "|" + inner + "(?:" + outer + inner + "|-" + outer + ")" +
                            inner + "{0,58}" + outer + ")?";
  return label + "(?:\\." + label + ")*";
}

// RFC 5321, of the form that mail systems use: no quoted names, no addresses in brackets, and a
// domain of at least two labels.
std::string email() {
  const std::string atom = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,64}";
  const std::string label = "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?";
  return atom + "(?:\\." + atom + ")*@(?:" + label + "\\.)+" + label;
}

std::string ipv4() {
  const std::string octet = "(?:25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)";
  return octet + "(?:\\." + octet + "){3}";
}

// RFC 3986, section 3.2.2.
std::string ipv6() {
  const std::string piece = "[0-9A-Fa-f]{1,4}";
  const std::string last = "(?:" + piece + ":" + piece + "|" + ipv4() + ")";
  const auto pieces = [&](const std::string& counts) { return "(?:" + piece + ":)" + counts; };
  const auto before = [&](const std::string& counts) {
    return "(?:" + pieces(counts) + piece + ")?";
  };
  return pieces("{6}") + last + "|::" + pieces("{5}") + last + "|" + before("{0}") +
         "::" + pieces("{4}") + last + "|" + before("{0,1}") + "::" + pieces("{3}") + last + "|" +
         before("{0,2}") + "::" + pieces("{2}") + last + "|" + before("{0,3}") +
         "::" + pieces("{1}") + last + "|" + before("{0,4}") + "::" + last + "|" + before("{0,5}") +
         "::" + piece + "|" + before("{0,6}") + "::";
}

/// Characters that RFC 3987 adds to unreserved ones, and to queries.
constexpr std::string_view kInternational =
    "\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{1FFFD}\\u{20000}-\\u{2FFFD}"
    "\\u{30000}-\\u{3FFFD}\\u{40000}-\\u{4FFFD}\\u{50000}-\\u{5FFFD}\\u{60000}-\\u{6FFFD}"
    "\\u{70000}-\\u{7FFFD}\\u{80000}-\\u{8FFFD}\\u{90000}-\\u{9FFFD}\\u{A0000}-\\u{AFFFD}"
    "\\u{B0000}-\\u{BFFFD}\\u{C0000}-\\u{CFFFD}\\u{D0000}-\\u{DFFFD}\\u{E1000}-\\u{EFFFD}";
constexpr std::string_view kPrivate = "\\uE000-\\uF8FF\\u{F0000}-\\u{FFFFD}\\u{100000}-\\u{10FFFD}";

/// The rules of RFC 3986, with more characters for RFC 3987.
struct UriRules {
  std::string authority;
  std::string segments;  ///< (/segment)*
  std::string character;
  std::string tail;  ///< query and fragment

  explicit UriRules(bool international) {
    const std::string more = international ? std::string(kInternational) : "";
    const std::string in_query = international ? std::string(kPrivate) : "";
    const std::string basic = "A-Za-z0-9._~!$&'()*+,;=" + more;
    const std::string encoded = "%[0-9A-Fa-f]{2}";
    const auto any_of = [&](const std::string& characters) {
      return "(?:[" + characters + "-]|" + encoded + ")";
    };
    character = any_of(basic + ":@");
    segments = "(?:/" + character + "*)*";
    const std::string literal =
        "\\[(?:" + ipv6() + "|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]";
    authority = "(?:" + any_of(basic + ":") + "*@)?(?:" + literal + "|" + any_of(basic) +
                "*)(?::\\d{0,5})?";
    tail =
        "(?:\\?" + any_of(basic + ":@/?" + in_query) + "*)?(?:#" + any_of(basic + ":@/?") + "*)?";
  }
  std::string absolute() const {
    return "[A-Za-z][A-Za-z0-9+.-]*:(?://" + authority + segments + "|/(?:" + character + "+" +
           segments + ")?|" + character + "+" + segments + ")" + tail;
  }
  std::string relative() const {
    // Without a colon in the first segment, which would begin with a scheme.
    std::string first = character;
    first.erase(first.find(":@"), 1);
    return "(?://" + authority + segments + "|/(?:" + character + "+" + segments + ")?|" + first +
           "+" + segments + ")?" + tail;
  }
};

std::string uri() { return UriRules(false).absolute(); }
std::string iri() { return UriRules(true).absolute(); }
std::string uri_reference() {
  const UriRules rules(false);
  return rules.absolute() + "|" + rules.relative();
}
std::string iri_reference() {
  const UriRules rules(true);
  return rules.absolute() + "|" + rules.relative();
}

// RFC 6570.
std::string uri_template() {
  const std::string encoded = "%[0-9A-Fa-f]{2}";
  const std::string literal = "(?:[!#$&(-;=?-\\[\\]_a-z~" + std::string(kInternational) +
                              std::string(kPrivate) + "]|" + encoded + ")";
  const std::string variable = "(?:[A-Za-z0-9_]|" + encoded + ")+(?::[1-9]\\d{0,3}|\\*)?";
  return "(?:" + literal + "|\\{[+#./;?&=,!@|]?" + variable + "(?:," + variable + ")*\\})*";
}

std::string uuid() { return "[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"; }

std::string json_pointer() { return "(?:/(?:[^~/]|~[01])*)*"; }

std::string relative_json_pointer() { return "(?:0|[1-9]\\d{0,9})(?:#|" + json_pointer() + ")"; }

constexpr std::array<std::pair<std::string_view, PatternOf>, 16> kFormats = {{
    {"date-time", date_time},
    {"date", date},
    {"time", time},
    {"duration", duration},
    {"email", email},
    {"hostname", hostname},
    {"ipv4", ipv4},
    {"ipv6", ipv6},
    {"uri", uri},
    {"uri-reference", uri_reference},
    {"iri", iri},
    {"iri-reference", iri_reference},
    {"uuid", uuid},
    {"uri-template", uri_template},
    {"json-pointer", json_pointer},
    {"relative-json-pointer", relative_json_pointer},
}};

constexpr std::array<std::string_view, 3> kRefusedFormats = {"idn-email", "idn-hostname", "regex"};

PatternOf find_pattern(std::string_view format) {
  for (const auto& [name, pattern] : kFormats) {
    if (name == format) return pattern;
  }
  return nullptr;
}

}  // namespace

FormatSupport format_support(std::string_view format) {
  if (find_pattern(format) != nullptr) return FormatSupport::kExact;
  return std::ranges::find(kRefusedFormats, format) != kRefusedFormats.end()
             ? FormatSupport::kRefused
             : FormatSupport::kUnknown;
}

std::optional<Regex> format_language(RegexArena& arena, std::string_view format) {
  const PatternOf pattern = find_pattern(format);
  if (pattern == nullptr) return std::nullopt;
  const auto language = arena.parse(pattern(), RegexSyntax::kEcma262Full);
  if (!language.ok()) return std::nullopt;
  if (format != "hostname") return *language;
  constexpr uint32_t kLongestName = 253;
  return arena.intersect(*language, arena.length(1, kLongestName));
}

}  // namespace chimere::constraints
