"""Prints how much the clauses hold and some random sentences: `python -m tools.phrasebook.clauses [SENTENCES] [SEED]`."""

import sys
from random import Random

import click

from dragoman.phrasebook import LANGUAGES
from tools.phrasebook.clauses.frames import Library, library
from tools.phrasebook.clauses.sampler import Clauses
from tools.phrasebook.corpus import packaged
from tools.phrasebook.generator import Drawer
from tools.phrasebook.render import render


def counts(source: Library) -> dict[str, int]:
    """How many units and frames there are."""
    lexicon = source.lexicon
    return {
        "verb phrases": len(lexicon.verbs),
        "events": len(lexicon.events),
        "adjectives": len(lexicon.adjectives),
        "nouns": len(lexicon.nouns),
        "subjects": len(lexicon.subjects),
        "times": len(lexicon.times),
        "places": len(lexicon.places),
        "frames": len(source.frames),
        "clauses inside frames": len({frame.name for group in source.inner.values() for frame in group}),
    }


def main() -> None:
    sentences, seed = (int(argument) for argument in (sys.argv[1:] + ["20", "0"][len(sys.argv) - 1 :]))
    for name, count in counts(library()).items():
        click.echo(f"{count:6,}  {name}")
    rng = Random(seed)
    clauses, drawer = Clauses("train", rng), Drawer(packaged(), "train", rng)
    for _ in range(sentences):
        filling, _ = drawer.fill(clauses.sample(), tag_share=0.0)
        click.echo("")
        for index, language in enumerate(LANGUAGES):
            text, typed = render(filling, index), render(filling, index, source=True)
            click.echo(f"{language}  {text}" + (f"   ({typed})" if typed != text else ""))


if __name__ == "__main__":
    main()
