#include "text/pre_tokenizer_rules.h"

namespace chimere::text {
namespace {

// Parts that the published patterns share. In all of them \s is the White_Space property.
#define CHIMERE_CONTRACTION R"('(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL]))"
#define CHIMERE_SPACES R"(|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define CHIMERE_CASED_WORDS(contraction)                   \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*)"  \
  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" contraction              \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+)" \
  R"([\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" contraction
#define CHIMERE_ASCII_MARK R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~])"

constexpr const char* kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 = CHIMERE_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr const char* kMiniCpm5 = CHIMERE_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr const char* kQwen2 = CHIMERE_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr const char* kQwen35 = CHIMERE_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr const char* kSeedCoder =
    CHIMERE_CONTRACTION R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}\r\n]+)" CHIMERE_SPACES;
constexpr const char* kBailing = CHIMERE_CONTRACTION
    R"(|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)";
constexpr const char* kGpt4o = CHIMERE_CASED_WORDS(
    "(?:" CHIMERE_CONTRACTION ")?") R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" CHIMERE_SPACES;
constexpr const char* kTekken =
    CHIMERE_CASED_WORDS("") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" CHIMERE_SPACES;
// Published with set intersections (&&[^\p{Han}]), here as what remains of all
// characters. (Without sc: PCRE2 counts shared punctuation as Han too.)
constexpr const char* kKimiK2 =
    R"(\p{sc:Han}+|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*)"
    R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+(?:)" CHIMERE_CONTRACTION R"()?)"
    R"(|[^\r\n\p{L}\p{N}]?[^\p{Ll}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]+)"
    R"([^\p{Lu}\p{Lt}\p{N}\p{P}\p{S}\p{Z}\p{C}\p{sc:Han}]*(?:)" CHIMERE_CONTRACTION R"()?)"
    R"(|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)" CHIMERE_SPACES;
constexpr const char* kDeepSeek3Words = CHIMERE_ASCII_MARK
    R"([A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*)" CHIMERE_SPACES;
constexpr const char* kCjk = R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kDeepSeekCjk = R"([\x{4E00}-\x{9FA5}\x{800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
// Letters with case, in the Unicode version of the first DeepSeek models.
constexpr const char* kDeepSeekLetters =
    R"(\s?[A-Za-z\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA}\x{1BC}-\x{1BF}\x{1C4}-\x{293})"
    R"(\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377}\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A})"
    R"(\x{38C}\x{38E}-\x{3A1}\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556})"
    R"(\x{10A0}-\x{10C5}\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15}\x{1F18}-\x{1F1D})"
    R"(\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59}\x{1F5B}\x{1F5D})"
    R"(\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE}\x{1FC2}-\x{1FC4})"
    R"(\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB}\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4})"
    R"(\x{1FF6}-\x{1FFC}\x{2102}\x{2107}\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124})"
    R"(\x{2126}\x{2128}\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F})"
    R"(\x{2145}-\x{2149}\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4})"
    R"(\x{2CEB}-\x{2CEE}\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06}\x{FB13}-\x{FB17})"
    R"(\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F}\x{104B0}-\x{104D3})"
    R"(\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF})"
    R"(\x{1E900}-\x{1E943}]+)";
constexpr const char* kDeepSeekMarks =
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)";
constexpr const char* kBloom =
    R"( ?[^(\s|.,!?\x{2026}\x{3002}\x{FF0C}\x{3001}\x{964}\x{6D4}\x{60C})]+)";
constexpr const char* kYoutuScripts =
    R"([\x{AC00}-\x{D7A3}\x{3131}-\x{318E}]+|[\x{FF01}\x{2026}\x{201C}\x{201D}\x{2018}\x{2019})"
    R"(\x{2014}\x{FF1A}\x{FF1B}\x{FF0C}\x{3001}-\x{303F}\x{FE30}-\x{FE4F}]+|[\x{3105}-\x{312F}]+)"
    R"(|[\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)";
constexpr const char* kYoutuWords = CHIMERE_CASED_WORDS(
    "(?:" CHIMERE_CONTRACTION ")?") R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*)" CHIMERE_SPACES;
constexpr const char* kOneNumber = R"(\p{N})";
constexpr const char* kThreeNumbers = R"(\p{N}{1,3})";

#undef CHIMERE_CONTRACTION
#undef CHIMERE_SPACES
#undef CHIMERE_CASED_WORDS
#undef CHIMERE_ASCII_MARK

std::vector<PreTokenizerRule> make_rules() {
  constexpr bool kNfc = true;
  constexpr bool kWhole = true;
  return {
      {{"qwen2", "deepseek-r1-qwen", "megrez", "f2llmv2"}, {kQwen2}, {}, kNfc},
      {{"stablelm2", "hunyuan", "solar-open", "grok-2", "kormo"}, {kQwen2}, {}},
      {{"qwen35"}, {kQwen35}, {}, kNfc},
      {{"gpt-2", "phi-2", "jina-es", "jina-de", "jina-v1-en", "jina-v2-es", "jina-v2-de",
        "jina-v2-code", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4",
        "jais", "trillion", "granite-docling"},
       {kGpt2},
       {}},
      {{"mpt", "olmo"}, {kGpt2}, {}, kNfc},
      {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2",
        "jina-v5-nano"},
       {kLlama3},
       {},
       !kNfc,
       kWhole},
      {{"dbrx", "smaug-bpe", "glm4", "chatglm-bpe"}, {kLlama3}, {}},
      {{"minicpm5"}, {kThreeNumbers, kMiniCpm5}, {}, !kNfc, kWhole},
      {{"gpt-4o", "llama4", "kanana2", "minimax-m2"}, {kGpt4o}, {}, !kNfc, kWhole},
      {{"tekken"}, {kTekken}, {}, !kNfc, kWhole},
      {{"kimi-k2"}, {kKimiK2}, {}},
      {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"},
       {kThreeNumbers, kCjk, kDeepSeek3Words},
       {}},
      {{"deepseek-llm"},
       {R"([\r\n])", kDeepSeekLetters, kDeepSeekMarks, R"(\s+$)", kDeepSeekCjk, kOneNumber},
       {}},
      {{"deepseek-coder"},
       {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kDeepSeekCjk, kOneNumber},
       {}},
      {{"command-r"}, {kOneNumber, kGpt2}, {}, kNfc},
      {{"starcoder", "refact", "smollm", "codeshell", "exaone", "minerva-7b", "mellum2"},
       {kOneNumber, kGpt2},
       {}},
      {{"seed-coder"}, {kSeedCoder}, {}},
      {{"bailingmoe", "bailingmoe2", "llada-moe"}, {kBailing}, {}},
      // Digits are looked for after the text became stand-ins of bytes, where superscript digits
      // and fractions of Latin-1 count too.
      {{"falcon"},
       {R"([\p{P}$+<=>^~|`]+)", kGpt2},
       {R"([0-9\xB2\xB3\xB9\xBC-\xBE]+)", R"([0-9][0-9][0-9])"}},
      {{"default"}, {R"([\p{P}$+<=>^~|]+)", kGpt2, R"(\p{N}+)", R"([0-9][0-9][0-9])"}, {}},
      {{"bloom", "poro-chat", "gpt3-finnish"}, {kBloom}, {}},
      {{"viking"}, {kBloom, kOneNumber}, {}},
      {{"youtu"}, {kYoutuScripts, kYoutuWords}, {}, !kNfc, kWhole},
  };
}

}  // namespace

const std::vector<PreTokenizerRule>& pre_tokenizer_rules() {
  static const std::vector<PreTokenizerRule> rules = make_rules();
  return rules;
}

}  // namespace chimere::text
