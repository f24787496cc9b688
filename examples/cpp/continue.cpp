// Generates a text in two parts, with the sequence saved and restored in between, and checks that
// they are the text generated at once: continue MODEL TEXT. MODEL "" is the shipped model.
#include <exception>
#include <iostream>

#include "chimere.hpp"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: continue MODEL TEXT\n";
    return 2;
  }
  try {
    using namespace chimere_cpp;
    const Model model(Runtime(), argv[1], {{"backend", "cpu"}});
    const auto prompt = model.tokenize(argv[2]);
    const Options half = {{"max-tokens", "8"}, {"seed", "7"}};
    const Options whole = {{"max-tokens", "16"}, {"seed", "7"}};

    Sequence first(model, prompt);
    first.generate(half);
    Sequence second(model, first.save());
    second.generate(half);

    Sequence at_once(model, prompt);
    at_once.generate(whole, [](std::string_view text) {
      std::cout << text << std::flush;
      return true;
    });
    const bool same = second.tokens() == at_once.tokens();
    std::cout << (same ? "\nthe same in two parts\n" : "\ndifferent in two parts\n");
    return same ? 0 : 1;
  } catch (const std::exception& e) {
    std::cerr << "continue: " << e.what() << '\n';
    return 1;
  }
}
