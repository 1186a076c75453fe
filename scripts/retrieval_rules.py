"""Does one document token a query token rank better? nDCG@10 of maxsim's rules on an encoder's token vectors.

    python scripts/retrieval_rules.py MODEL -o FOLDER [--lee FOLDER] [--text FILE] [--documents N]

MODEL is a folder that transformers reads. Two tasks, each where its data are given:

lee      50 news articles, each a query over the other 49; gains are how alike people found two articles, 0 to
         1 (`lee.cor`, `similarities0-1.txt` of gensim's test data) [lee2005].
cloze    a task made up from running text: the query is a sentence, drawn and taken out of its paragraph, and
         the one relevant document of N is what is left of that paragraph.

nDCG@10 = sum over the first ten of gain / log2(rank + 1), over the most that this can be. Differences from
`max` are paired by query; their 95 % interval is the bootstrap's, of 10,000 draws of the queries. `mean` is
one vector a text, the encoder's own use. Token vectors and scores are kept in FOLDER, so that a run goes on
where it was interrupted.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import otattn

RULES = ("max", "capped:4", "capped:2", "assignment")
MOST_TOKENS = 256
DRAWS = 10_000


@dataclass(frozen=True)
class Task:
    """Texts and the gain of each document for each query; NaN where it is not to be ranked."""

    name: str
    queries: list[str]
    documents: list[str]
    gains: Any  # [queries, documents]


def lee(folder: Path) -> Task:
    texts = (folder / "lee.cor").read_text("latin-1").splitlines()
    above = np.triu(np.loadtxt(folder / "similarities0-1.txt"), 1)
    # Judgements are on five levels, 0.2 to 1: the least of them gains nothing.
    gains = (above + above.T - 0.2) / 0.8
    np.fill_diagonal(gains, np.nan)
    return Task("lee", texts, texts, gains)


def cloze(path: Path, count: int) -> Task:
    rng = np.random.default_rng(0)
    queries, documents = [], []
    for line in path.read_text().splitlines():
        text = re.sub(r" @(.)@ ", r"\1", line).strip()
        sentences = re.split(r"(?<= [.!?]) ", text)
        fit = [k for k, x in enumerate(sentences) if 8 <= len(x.split()) <= 40]
        if text.startswith("=") or len(sentences) < 4 or not fit:
            continue
        drawn = int(rng.choice(fit))
        queries.append(sentences[drawn])
        documents.append(" ".join(sentences[:drawn] + sentences[drawn + 1 :]))
    if len(queries) < count:
        raise SystemExit(f"{path} has {len(queries)} paragraphs to draw from, fewer than {count}")
    chosen = np.sort(rng.permutation(len(queries))[:count])
    return Task("cloze", [queries[k] for k in chosen], [documents[k] for k in chosen], np.eye(count))


def token_vectors(model: Path, texts: list[str], path: Path) -> tuple[Any, Any]:
    """Vectors of length 1 of all tokens but the outer marks, [tokens, width], and where texts begin."""
    if not path.exists():
        import torch
        from transformers import AutoModel, AutoTokenizer

        tokenizer = AutoTokenizer.from_pretrained(model, local_files_only=True)
        network = AutoModel.from_pretrained(model, local_files_only=True).eval()
        parts = []
        with torch.inference_mode():
            for text in texts:
                words = tokenizer(text, truncation=True, max_length=MOST_TOKENS, return_tensors="pt")
                states = network(**words).last_hidden_state[0, 1:-1]
                parts.append(torch.nn.functional.normalize(states, dim=-1).numpy())
        offsets = np.cumsum([0, *map(len, parts)])
        save(path, vectors=np.concatenate(parts), offsets=offsets)
    with np.load(path) as kept:
        return kept["vectors"], kept["offsets"]


def save(path: Path, **arrays: Any) -> None:
    unfinished = path.with_suffix(".part.npz")
    np.savez(unfinished, **arrays)
    unfinished.replace(path)


def scores_by(rule: str, queries: tuple[Any, Any], documents: tuple[Any, Any]) -> Any:
    """[queries, documents]."""
    (asked, starts), (held, offsets) = queries, documents
    if rule == "mean":
        means = [np.add.reduceat(x, places[:-1]) for x, places in (queries, documents)]
        query, document = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in means)
        return query @ document.T
    lengths = np.diff(starts)
    padded = np.zeros((len(lengths), lengths.max(), asked.shape[1]), np.float32)
    for k, length in enumerate(lengths):
        padded[k, :length] = asked[starts[k] : starts[k + 1]]
    return otattn.maxsim(padded, held, offsets, query_lengths=lengths, rule=rule)


def ndcg(scores: Any, gains: Any, depth: int = 10) -> Any:
    """Of each query; documents of equal scores in their order."""
    discount = 1.0 / np.log2(np.arange(2, depth + 2))
    found = []
    for score, gain in zip(scores, gains, strict=True):
        ranked = ~np.isnan(gain)
        own = gain[ranked]
        order = np.argsort(-score[ranked], kind="stable")[:depth]
        most = np.sort(own)[::-1][:depth]
        found.append((own[order] * discount[: len(order)]).sum() / (most * discount[: len(most)]).sum())
    return np.array(found)


def interval(difference: Any) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    means = [difference[rng.integers(len(difference), size=len(difference))].mean() for _ in range(DRAWS)]
    low, high = np.percentile(means, (2.5, 97.5))
    return float(low), float(high)


def run(task: Task, model: Path, folder: Path) -> None:
    queries = token_vectors(model, task.queries, folder / f"{task.name}-queries.npz")
    documents = token_vectors(model, task.documents, folder / f"{task.name}-documents.npz")
    asked, held = (np.median(np.diff(x[1])) for x in (queries, documents))
    print(
        f"{task.name}: {len(task.queries)} queries of {asked:.0f} tokens, {len(task.documents)} documents "
        f"of {held:.0f} (medians)\n\n| rule | nDCG@10 | less max | 95 % interval |\n|---|---|---|---|"
    )
    base: Any = None
    for rule in (*RULES, "mean"):
        path = folder / f"{task.name}-{rule.replace(':', '-')}.npz"
        if not path.exists():
            save(path, scores=scores_by(rule, queries, documents))
        with np.load(path) as kept:
            found = ndcg(kept["scores"], task.gains)
        base = found if base is None else base
        low, high = interval(found - base)
        apart = "" if rule == "max" else f"{(found - base).mean():+.4f} | {low:+.4f} to {high:+.4f}"
        print(f"| {rule} | {found.mean():.4f} | {apart or '|'} |", flush=True)
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--lee", type=Path)
    parser.add_argument("--text", type=Path)
    parser.add_argument("--documents", type=int, default=800)
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    if options.lee:
        run(lee(options.lee), options.model, options.output)
    if options.text:
        run(cloze(options.text, options.documents), options.model, options.output)


if __name__ == "__main__":
    main()
