#!/usr/bin/env python3
"""`chimere ask` over invented documents: stated facts are answered from the passage that states them, others refused.

  invented_test.py CHIMERE MODEL [--documents 40] [--questions 60] [--family A|B] [--seed N] [--least 0.85] [--other-words]
                   [--show]

A seeded program writes documents on invented towns, companies, machines, people, recipes and plants (invented_world.py);
`chimere collection add` indexes them. One `chimere serve` answers the questions with the fields that `chimere ask
--collection` sends; the embedder is the shipped one beside MODEL. A fact counts if the answer cites a passage and the first one that it cites has the fact's sentence. A
question on what no document states counts as refused if the answer says that it does not know and cites nothing.
--least: the share that both must reach. --other-words: asks the facts in other words than the document's, without a bound.
"""
import argparse
import pathlib
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).resolve().parent))
sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "serving"))
from invented_world import World  # noqa: E402
from server import Server  # noqa: E402


def plain(text):
    return " ".join(text.split())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chimere")
    parser.add_argument("model")
    parser.add_argument("--documents", type=int, default=40)
    parser.add_argument("--questions", type=int, default=60)
    parser.add_argument("--family", choices=["A", "B"], default="A")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--least", type=float, default=0.85)
    parser.add_argument("--other-words", action="store_true")
    parser.add_argument("--show", action="store_true", help="what went wrong")
    o = parser.parse_args()
    world = World(o.seed, o.family, o.documents)
    facts, absent = world.facts[:o.questions], world.absent[:o.questions]
    with tempfile.TemporaryDirectory() as folder:
        docs = pathlib.Path(folder, "docs")
        docs.mkdir()
        for name, text in world.documents.items():
            (docs / name).write_text(text)
        embedder = pathlib.Path(o.model).with_name("chimere-embed.gguf")
        collections = ["--collections", folder + "/collections", "--embedding-model", str(embedder)]
        subprocess.run([o.chimere, "collection", "add", "invented", str(docs), "--quiet", *collections], check=True,
                       stdout=subprocess.DEVNULL)
        server = Server(o.chimere, o.model, *collections, "--state-folder", folder + "/state")
        try:
            def ask(question):
                reply = server.post("/v1/chat/completions", {
                    "model": "odo", "messages": [{"role": "user", "content": question}], "temperature": 0, "max_tokens": 60,
                    "odo": {"collections": ["invented"], "only_passages": True}})
                sources = [s for s in reply["odo"]["sources"] if s["cited"]]
                return reply["choices"][0]["message"]["content"], sources

            def asked(kind, rows, judge):
                right = 0
                for row in rows:
                    question = row if isinstance(row, str) else row[0]
                    answer, sources = ask(question)
                    good = judge(row, answer, sources)
                    right += good
                    if o.show and not good:
                        print(f"{kind}: {question}\n   {row[1] if row is not question else 'no document'}\n   -> {answer}")
                print(f"family {o.family}, seed {o.seed}: {kind}: {right} of {len(rows)} ({right / len(rows):.2f})")
                return right >= o.least * len(rows)

            def source(row, _, sources):
                return bool(sources) and plain(row[1]) in plain(sources[0]["text"])

            good = asked("facts with the right source", facts, source)
            good = asked("absent facts refused", absent, lambda _, answer, sources: "I do not know" in answer and not sources) and good
            if o.other_words:
                asked("facts in other words, right source", [(other, *rest) for _, *rest, other in facts], source)
        finally:
            server.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
