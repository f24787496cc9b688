#!/usr/bin/env python3
"""Rerankers and embedders beside the main model.

  rerank_test.py CHIMERE MODEL WRITE_TINY_MODEL
"""
import concurrent.futures
import json
import subprocess
import sys
import tempfile
import unittest

from server import Server

CHIMERE, MODEL, WRITE_TINY_MODEL = sys.argv[1:4]


class Rerank(unittest.TestCase):
    def test_rerank(self):
        with tempfile.TemporaryDirectory() as folder:
            reranker, embedder = folder + "/ranker.gguf", folder + "/encoder.gguf"
            subprocess.run([WRITE_TINY_MODEL, reranker, "bert-rank", "7"], check=True)
            subprocess.run([WRITE_TINY_MODEL, embedder, "nomic-bert", "8"], check=True)
            server = Server(CHIMERE, MODEL, "--rerank-model", reranker, "--embedding-model", embedder)
            self.addCleanup(server.close)
            self.assertEqual({m["id"] for m in server.models()}, {server.model, "ranker", "encoder"})
            query, documents = "what is a moth", ["the lamp", "a moth is a moth", "list", "file " * 600]
            result = server.post("/v1/rerank", {"model": "ranker", "query": query, "documents": documents})
            scores = {r["index"]: r["relevance_score"] for r in result["results"]}
            self.assertEqual(set(scores), set(range(4)))
            self.assertEqual([r["relevance_score"] for r in result["results"]], sorted(scores.values(), reverse=True))
            self.assertEqual({r["index"]: r["document"]["text"] for r in result["results"]}, dict(enumerate(documents)))
            self.assertGreater(result["usage"]["total_tokens"], 500)
            self.assertTrue(all(0 < score < 1 for score in scores.values()))
            for i, document in enumerate(documents):
                alone = server.post("/v1/rerank", {"query": query, "documents": [{"text": document}], "return_documents": False})
                self.assertEqual(alone["results"], [{"index": 0, "relevance_score": scores[i]}])
            best = server.post("/v2/rerank", {"model": "ranker", "query": query, "documents": documents, "top_n": 2})
            self.assertEqual([r["index"] for r in best["results"]], [r["index"] for r in result["results"]][:2])
            self.assertEqual(best["meta"]["api_version"]["version"], "2")
            short = server.post("/v2/rerank", {"query": query, "documents": ["the lamp list"], "max_tokens_per_doc": 2})
            self.assertEqual(short["results"][0]["relevance_score"], scores[0])
            pairs = server.post("/v1/score", {"model": "ranker", "text_1": query, "text_2": documents})
            self.assertEqual([d["score"] for d in pairs["data"]], [scores[i] for i in range(4)])
            both = server.post("/v1/score", {"text_1": [query, "x"], "text_2": documents[:2]})
            self.assertEqual(both["data"][0]["score"], scores[0])
            for path, body, param in [("/v1/rerank", {"query": "x"}, "documents"), ("/v1/rerank", {"documents": ["x"]}, "query"),
                                      ("/v1/rerank", {"query": "x", "documents": []}, "documents"),
                                      ("/v1/rerank", {"query": "x " * 600, "documents": ["x"]}, "query"),
                                      ("/v2/rerank", {"query": "x", "documents": ["x"], "top_n": 0}, "top_n"),
                                      ("/v1/score", {"text_1": ["x", "y"], "text_2": ["x", "y", "z"]}, "text_1")]:
                self.assertEqual(server.error(path, body, 400)["param"], param, body)
            for name in (server.model, "encoder"):
                refused = server.error("/v1/rerank", {"model": name, "query": "x", "documents": ["x"]}, 400)
                self.assertEqual(refused["code"], "model_does_not_rank")
            self.assertEqual(server.error("/v1/embeddings", {"model": "ranker", "input": "x"}, 400)["code"], "model_does_not_embed")
            for path, body in [("/v1/rerank", {"query": "moth", "documents": ["a lamp"]}), ("/v2/rerank", {"query": "moth", "documents": ["a lamp"]}),
                               ("/v1/score", {"text_1": "moth", "text_2": "lamp"}), ("/v1/embeddings", {"input": "moth"}),
                               ("/v2/embed", {"texts": ["moth"]}), ("/api/embed", {"input": "moth"}), ("/api/embeddings", {"prompt": "moth"})]:
                status, headers, _ = server.call("POST", path, body)
                self.assertEqual((status, headers["X-Chimere-Warning"]), (200, None), path)
                status, headers, _ = server.call("POST", path, {**body, "unheard_of": 1, "later": 2})
                self.assertEqual((status, headers["X-Chimere-Warning"]),
                                 (200, "The fields 'unheard_of', 'later' are unknown here and ignored."), path)
            # Many clients at once get the bits of one.
            texts = ["the moth " * (1 + i % 7) + "a" for i in range(24)]
            alone = [server.post("/v1/embeddings", {"input": text})["data"][0]["embedding"] for text in texts]
            with concurrent.futures.ThreadPoolExecutor(24) as pool:
                together = list(pool.map(lambda text: server.post("/v1/embeddings", {"input": text})["data"][0]["embedding"], texts))
            self.assertEqual(alone, together)
            command = subprocess.run([CHIMERE, "rerank", "--json", "-m", reranker, "--top", "2", "--", query, *documents],
                                     capture_output=True, check=True)
            self.assertEqual([(r["index"], r["relevance_score"]) for r in json.loads(command.stdout)["results"]],
                             [(r["index"], r["relevance_score"]) for r in result["results"]][:2])
            server.close()
            self.assertEqual(server.log().count("ignored=unheard_of,later"), 7)
            server = Server(CHIMERE, MODEL, "--rerank-model", reranker, "--embedding-model", embedder, "--strict-fields")
            self.addCleanup(server.close)
            for path, body in [("/v1/rerank", {"query": "moth", "documents": ["a lamp"]}), ("/v1/embeddings", {"input": "moth"})]:
                self.assertEqual(server.error(path, {**body, "later": 2}, 400)["code"], "unknown_parameter")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
