#include "constraints/formats.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "constraints/json_string.h"
#include "constraints/regex_machine.h"

namespace chimere::constraints {
namespace {

struct Examples {
  const char* format;
  std::vector<std::string> valid;
  std::vector<std::string> invalid;
};

TEST(Formats, Examples) {
  const std::vector<Examples> all = {
      {"date",
       {"1963-06-19", "2020-01-31", "2024-02-29", "2000-02-29", "0001-12-31"},
       {"06/19/1963", "2021-02-29", "1900-02-29", "2020-04-31", "2020-13-01", "1998-1-20",
        "0000-01-01", "2020-11-32", "2023-W13-2", "20230328"}},
      {"time",
       {"08:30:06Z", "08:30:06.283185Z", "08:30:06+00:20", "23:59:60Z", "08:30:06z"},
       {"24:00:00Z", "08:60:00Z", "08:30:06", "08:30:06-8:000", "22:59:60Z", "08:30:06+24:00",
        "01:02:03+00:60", "8:30:06Z"}},
      {"date-time",
       {"1963-06-19T08:30:06.283185Z", "1990-12-31t15:59:50.123-08:00", "1998-12-31T23:59:60Z"},
       {"1990-02-31T15:59:59.123-08:00", "1963-06-19 08:30:06Z", "2013-350T01:01:01",
        "1963-06-19T08:30:06", "1998-12-31T23:58:60Z"}},
      {"duration",
       {"P4DT12H30M5S", "P4Y", "PT0S", "P0D", "P1M", "PT1M", "PT36H", "P1DT12H", "P2W"},
       {"P", "PT", "4DT12H", "P1YT", "P2D1Y", "P1D2H", "PT1D", "P2S", "P1Y2W", "P1Y2D"}},
      {"email",
       {"joe.bloggs@example.com", "te~st@example.com", "a+b@x-y.org"},
       {"2962", ".test@example.com", "te..st@example.com", "test.@example.com", "a@-x.com",
        "joe.bloggs@invalid=domain.com", "a b@c.de"}},
      {"hostname",
       {"www.example.com", "a", "h0stn4me", "1host", "hostnam3", std::string(63, 'a') + ".b"},
       {"", "-a", "a-", "not_valid", ".a", "a.", "a..b", std::string(64, 'a'), "XN--aa",
        std::string(240, 'a')}},
      {"ipv4",
       {"192.168.0.1", "87.10.0.1", "0.0.0.0", "255.255.255.255"},
       {"127.0.0.0.1", "256.256.256.256", "127.0", "0x7f.0.0.1", "087.10.0.1", "2130706433"}},
      {"ipv6",
       {"::1", "::", "1::", "1::8", "1:2:3:4:5:6:7:8", "::abef", "2001:db8::ff00:42:8329",
        "::ffff:192.168.0.1", "1:2::192.168.0.1", "1:2:3:4:5:6:7::", "::2:3:4:5:6:7:8",
        "1::2:3:4:5:6:7", "1:2:3:4:5:6::8", "1000:1000:1000:1000:1000:1000:255.255.255.255"},
       {"12345::", "::12345", "1:1:1:1:1:1:1:1:1", "::laptop", ":2:3:4:5:6:7:8", "1:2:3::4::5",
        "1::2:3:4:5:6:7:8", "1:2:3:4", "fe80::a%eth1",
        "100:100:100:100:100:100:255.255.255.255.255", "1:2:3:4:5:6:7:", ":::"}},
      {"uri",
       {"http://foo.bar/?baz=qux#quux", "http://foo.com/blah_(wikipedia)_blah#cite-1",
        "http://-.~_!$&'()*+,;=:%40:80%2f::::::@example.com", "http://223.255.255.254",
        "ftp://ftp.is.co.za/rfc/rfc1808.txt", "ldap://[2001:db8::7]/c=GB?objectClass?one",
        "mailto:John.Doe@example.com", "tel:+1-816-555-1212", "urn:oasis:names",
        "https://x:8080/a?b/c?d", "http://"},
       {"//foo.bar/?baz=qux#quux", "/abc", "\\\\WINDOWS\\fileshare", "abc",
        "http:// shouldfail.com", ":// should fail", "bar,baz:foo", "http://a/ä",
        "https://[@example.org/test.txt", "https://example.org/foobar\\.txt", "http://a/%zz"}},
      {"uri-reference",
       {"http://foo.bar/?baz=qux#quux", "//foo.bar/?baz", "/abc", "abc", "#fragment", "", "?q",
        "a/b:c"},
       {"\\\\WINDOWS\\fileshare", "#frag\\ment", "1a:b", "a b"}},
      {"iri",
       {"http://ƒøø.ßår/?∂éœ=πîx#πîüx", "http://example.org/"},
       {"âππ", "/abc", "http://a b"}},
      {"iri-reference", {"âππ", "#ƒrägmênt"}, {"#ƒräg\\mênt"}},
      {"uuid",
       {"2EB8AA08-AA98-11EA-B4AA-73B441D16380", "2eb8aa08-aa98-11ea-b4aa-73b441d16380"},
       {"2eb8aa08-aa98-11ea-b4aa-73b441d1638", "2eb8aa08aa9811eab4aa73b441d16380",
        "2eb8aa08-aa98-11ea-b4aa73b441d16380", "2eb8aa08-aa98-11ea-b4ga-73b441d16380"}},
      {"uri-template",
       {"http://example.com/dictionary/{term:1}/{term}", "dictionary/{?x,y*}", ""},
       {"http://example.com/dictionary/{term:1}/{term", "{}", "{a b}"}},
      {"json-pointer",
       {"", "/foo/bar~0/baz~1/%a", "/", "//", "/ ", "/~01"},
       {"/foo/bar~", "a", "#/", "/~2"}},
      {"relative-json-pointer",
       {"1", "0/foo/bar", "2/0/baz/1/zip", "0#", "120"},
       {"/foo/bar", "-1/foo", "0##", "01/a", "", "+1"}},
  };
  for (const Examples& examples : all) {
    SCOPED_TRACE(examples.format);
    EXPECT_EQ(format_support(examples.format), FormatSupport::kExact);
    RegexArena arena;
    const auto language = format_language(arena, examples.format);
    ASSERT_TRUE(language.has_value());
    for (const std::string& text : examples.valid) {
      EXPECT_TRUE(arena.matches(*language, text)) << text;
    }
    for (const std::string& text : examples.invalid) {
      EXPECT_FALSE(arena.matches(*language, text)) << text;
    }
    EXPECT_TRUE(JsonStringMachine::create(arena, *language).ok());
    EXPECT_TRUE(RegexMachine::create(arena, *language).ok());
  }
}

TEST(Formats, DaysOfTheCalendar) {
  RegexArena arena;
  const Regex date = *format_language(arena, "date");
  constexpr int kDays[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  for (const int year : {1, 4, 100, 400, 1900, 1999, 2000, 2023, 2024, 2100, 9996, 9999}) {
    const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    for (int month = 0; month <= 13; ++month) {
      for (int day = 0; day <= 32; ++day) {
        char text[32];
        std::snprintf(text, sizeof(text), "%04d-%02d-%02d", year, month, day);
        const bool valid = month >= 1 && month <= 12 && day >= 1 &&
                           day <= kDays[month - 1] + (leap && month == 2 ? 1 : 0);
        ASSERT_EQ(arena.matches(date, text), valid) << text;
      }
    }
  }
}

TEST(Formats, OthersAreRefusedOrUnknown) {
  RegexArena arena;
  EXPECT_EQ(format_support("regex"), FormatSupport::kRefused);
  EXPECT_EQ(format_support("idn-email"), FormatSupport::kRefused);
  EXPECT_EQ(format_support("color"), FormatSupport::kUnknown);
  EXPECT_FALSE(format_language(arena, "color").has_value());
}

}  // namespace
}  // namespace chimere::constraints
